"""Products whose depth is not a multiple of an instruction's k."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import representative
from program_outcome import outcome
from random_schedules import random_start

from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import ScheduleVerifier
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import F16
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language import ir
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import Tile
from search_spaces.programs.schedules.describe import conversions
from search_spaces.programs.template import template
from search_spaces.spaces.parameters import Value

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
    """The elements after a step's window belong to the next step, so both operands are zero after the window."""
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


def computed(p: Builder, form: str, x: Tile, typed: str) -> Tile:
    """Compute a function of a tile in the tile's type: element by element, or with a reduction of rows."""
    if typed == "i8":
        wide = x.cast("i32")
        return (wide + 3 if form == "each" else wide - (p.reduction("add", wide, dim=1) >> 5)).cast(typed)
    wide = x.cast("f32")
    scale = 1.0 if form == "each" else p.reduction("maximumf", wide, dim=1)
    return p.exp2(wide * 0.25 - scale).cast(typed)


def by_steps(typed: str, depth: int, left: str, right: str) -> Program:
    """Return a product in steps of ``depth``. Operands that are not "loaded" are computed by ``computed``."""
    sums = "i32" if typed == "i8" else "f32"

    @program(x=Input("m k", typed), w=Input("n k", typed), out=Output("m n", sums))
    def computed_depths(p: Builder, x: Array, w: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (32, 32))
        acc = p.state(p.zeros((32, 32), sums))
        for s in p.steps(x.shape[1], depth):
            a, b = p.load(p.window(x, (i, s), (32, depth))), p.load(p.window(w, (j, s), (32, depth)))
            a = a if left == "loaded" else computed(p, left, a, typed)
            b = b if right == "loaded" else computed(p, right, b, typed)
            acc.set(p.mma(a, p.transpose(b), acc, tf32=typed == "f32"))
        p.store(acc, p.window(out, (i, j), (32, 32)))

    return computed_depths


FORMS = [("each", "loaded"), ("loaded", "reduced"), ("reduced", "each"), ("reduced", "reduced")]
DEPTHS = [
    f"{name}-{typed}-{depth}-{left}-{right}"
    for name in ("a100", "h100", "t4", "b200")
    for typed in ("f16", "bf16", "i8", "f32")
    for depth in (20, 24, 33, 40, 72)
    for left, right in FORMS
    if (name, typed) != ("t4", "bf16")
]


@pytest.mark.parametrize(
    "case",
    representative(
        DEPTHS, "a100-f16-40-reduced-each", "h100-bf16-33-each", "t4-i8-24-loaded", "b200-f32-20-reduced-reduced"
    ),
)
def test_computed_operands(case: str) -> None:
    name, typed, depth, left, right = case.split("-")
    tile_program = by_steps(typed, int(depth), left, right)
    p, own, gpu = problem(tile_program, m=40, n=33, k=2 * int(depth)), template(tile_program), device(name)
    assert own.why_not(p, gpu) is None
    assert outcome(p, own.kernel(p, own.space(p, gpu).sample(1, 1)[0], gpu)) == "ok"


@program(q=Input("m d", "f16"), k=Input("s d", "f16"), v=Input("s e", "f16"), out=Output("m e", "f32"))
def short_keys(p: Builder, q: Array, k: Array, v: Array, out: Array) -> None:
    """Compute attention over few keys. The keys are the depth of the second product."""
    (m, d), (s, e), bm = q.shape, v.shape, p.choose(bm=(64, 128))
    (i,) = p.blocks((m,), (bm,))
    left, right = p.load(p.window(q, (i, 0), (bm, d))), p.load(p.window(k, (0, 0), (s, d)))  # type: ignore[arg-type]
    z = p.mma(left, p.transpose(right)) * 0.2
    weights = p.exp2(z - p.reduction("maximumf", z, dim=1))
    total = p.reduction("add", weights, dim=1)
    acc = p.mma(weights.cast("f16"), p.load(p.window(v, (0, 0), (s, e))))  # type: ignore[arg-type]
    p.store(acc / total, p.window(out, (i, 0), (bm, e)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("t4", "mma_m16n8k8_f16"),
        ("a100", "mma_m16n8k16_f16"),
        ("h100", "wgmma_m64k16_f16"),
        ("b200", "tcgen05_m64k16_f16"),
    ],
    ids=lambda text: text.split("_")[0],
)
def test_a_function_of_a_product_is_an_operand(name: str, way: str) -> None:
    """Warps with whole rows of the first product keep the rows in registers, with zeros after the last key."""
    p, own, gpu = problem(short_keys, m=130, s=40, d=64, e=64), template(short_keys), device(name)
    rows: dict[str, Value] = {"subgroups_n_1": 1, "subgroups_n_2": 1} if way.startswith("mma") else {}
    schedule = random_start(own.space(p, gpu), 1, {"intrinsic": way, **rows})
    assert schedule is not None
    moved = [row for row in conversions(p, schedule.values) if "x48" in row.shape]
    assert [row.route for row in moved] == ["other registers"]
    kernel = own.kernel(p, schedule, gpu)
    assert outcome(p, kernel) == "ok"


def test_infinities_and_nans_next_to_the_zeros() -> None:
    """Elements after a step belong to the next step. They are replaced by 0, so that NaN has no effect."""
    tile_program = by_steps("f16", 40, "each", "loaded")
    p, own = problem(tile_program, m=32, n=32, k=80), template(tile_program)
    inputs = dict(p.random_inputs(1))
    x, w = inputs["x"].copy(), inputs["w"].copy()
    x[0, 40:48], x[1, 40], x[2, 79] = (F16.store(np.float32(n)) for n in (np.inf, np.nan, np.inf))
    w[3, 40:48] = F16.store(np.float32(-np.inf))
    for schedule in own.space(p, A100).sample(2, 3):
        assert outcome(p, own.kernel(p, schedule, A100), {**inputs, "x": x, "w": w}) == "ok"


@pytest.mark.parametrize("forms", [("each", "loaded"), ("reduced", "reduced")], ids="-".join)
def test_computed_depths_have_exact_counts_and_verdicts(forms: tuple[str, str]) -> None:
    tile_program = by_steps("f16", 40, *forms)
    p, own = problem(tile_program, m=70, n=70, k=120), template(tile_program)
    space = own.space(p, A100)
    drawn = space.sample(20, 5)
    for schedule in drawn:
        own.kernel(p, schedule, A100)
    verdict = ScheduleVerifier(own, p, A100).verify(drawn[0])
    assert verdict.ok, verdict.reason


def test_products_by_fma_are_unrolled_in_part() -> None:
    """Loops over the depth are not unrolled completely, since each step has hundreds of instructions."""

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
