"""Products whose depth is not a multiple of an instruction's k."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_outcome import outcome

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language import ir
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
A100 = device("a100")


@pytest.mark.parametrize(("head", "depth"), [(40, 48), (72, 80), (96, 96)])
def test_heads_of_any_multiple_of_eight(head: int, depth: int) -> None:
    p = problem(load_program(str(EXAMPLES / "attention.py:causal_attention")), h=1, g=1, s=70, d=head)
    own = template(p.program)
    depths = [o.a.shape[1] for o, _ in p.usual_trace().walk() if isinstance(o, ir.Mma)]
    assert depths[0] == depth
    schedules = own.space(p, A100).sample(10, 1)
    kernels = [own.kernel(p, schedule, A100) for schedule in schedules]
    assert outcome(p, kernels[0]) == "ok"


@pytest.mark.parametrize("typed", ["f16", "i8"])
def test_short_depths(typed: str) -> None:
    @program(x=Input("m k", typed), w=Input("n k", typed), out=Output("m n", "i32" if typed == "i8" else "f32"))
    def short(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        left, right = p.load(p.window(x, (i, 0), (32, 20))), p.load(p.window(w, (j, 0), (32, 20)))
        p.store(p.mma(left, p.transpose(right)), p.window(out, (i, j), (32, 32)))

    p = problem(short, m=40, n=33, k=20)
    own = template(short)
    assert outcome(p, own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100)) == "ok"


@pytest.mark.parametrize(("typed", "depth"), [("f16", 40), ("bf16", 20), ("i8", 40)])
@pytest.mark.parametrize("name", ["a100", "h100"])
def test_steps_are_cut_at_their_window_inside_the_array(typed: str, depth: int, name: str) -> None:
    """The elements after a step's window belong to the next step, so both operands are cut there."""
    sums = "i32" if typed == "i8" else "f32"

    @program(x=Input("m k", typed), w=Input("k n", typed), out=Output("m n", sums))
    def by_steps(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        acc = p.state(p.zeros((32, 32), sums))
        for s in p.steps(x.shape[1], depth):
            left, right = p.load(p.window(x, (i, s), (32, depth))), p.load(p.window(w, (s, j), (depth, 32)))
            acc.set(p.mma(left, right, acc))
        p.store(acc, p.window(out, (i, j), (32, 32)))

    p, own, where = problem(by_steps, m=40, n=48, k=3 * depth - 4), template(by_steps), device(name)
    for schedule in own.space(p, where).sample(2, 1):
        assert outcome(p, own.kernel(p, schedule, where)) == "ok"


def test_a_computed_depth_is_rejected_with_its_number() -> None:
    @program(x=Input("m k", "f16"), w=Input("k n", "f16"), out=Output("m n", "f32"))
    def by_twenty(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        left = (p.load(p.window(x, (i, 0), (32, 20))).cast("f32") * 2.0).cast("f16")
        p.store(p.mma(left, p.load(p.window(w, (0, j), (20, 32)))), p.window(out, (i, j), (32, 32)))

    with pytest.raises(ValueError, match=r"test_depths\.py:\d+ has a depth of 20"):
        template(by_twenty).space(problem(by_twenty, m=32, n=32, k=20), A100).sample(1, 1)


def test_products_by_fma_are_unrolled_in_part() -> None:
    """Each step of the depth is hundreds of instructions, which take seconds to compile."""

    @program(x=Input("m k", "f32"), w=Input("k n", "f32"), out=Output("m n", "f32"))
    def by_fma(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 64))
        acc = p.state(p.zeros((32, 64)))
        for s in p.steps(x.shape[1], 48):
            left, right = p.load(p.window(x, (i, s), (32, 48))), p.load(p.window(w, (s, j), (48, 64)))
            acc.set(p.mma(left, right, acc))
        p.store(acc, p.window(out, (i, j), (32, 64)))

    p = problem(by_fma, m=40, n=70, k=96)
    own = template(by_fma)
    kernel = own.kernel(p, own.space(p, A100).sample(1, 3)[0], A100)
    assert "#pragma unroll 8\n" in kernel.source
    assert outcome(p, kernel) == "ok"
