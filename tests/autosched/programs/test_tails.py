"""Loops whose last iterations are peeled: the other iterations have no mask, and results are correct."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cases import spread
from compiling import shared_pool

from autosched.programs.loading import load_program, problem
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, mix, nvdisasm
from measurements.compiler.pool import CompileFailure
from measurements.emulator import ASCENDING, Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning import tails
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

A100, H100 = device("a100"), device("h100")
PROGRAMS = Path(__file__).parents[3] / "examples" / "programs"
CASES = {
    "gemm_relu.py": {"m": 70, "n": 72, "k": 344},
    "attention.py:causal_attention": {"h": 2, "g": 1, "s": 200, "d": 64},
    "attention.py:full_attention": {"h": 2, "g": 1, "s": 200, "d": 64},
    "cross_entropy.py": {"m": 7, "n": 3000},
    "matmul_softmax.py": {"m": 60, "n": 128, "k": 344},
}


def example(path: str, sizes: dict[str, int]) -> tuple[Program, ProgramProblem]:
    program = load_program(str(PROGRAMS / path))
    return program, problem(program, **sizes)


def peeled(program: Program, p: ProgramProblem, count: int = 1) -> list[Schedule]:
    schedules = [s for s in template(program).space(p, A100).sample(120, 3) if s.values["tail"] == "peeled"]
    assert len(schedules) >= count, "about half of the schedules must peel the last iterations"
    return schedules[:count]


def outcome(
    program: Program,
    p: ProgramProblem,
    schedule: Schedule,
    order: Order,
    changed: Callable[[GeneratedKernel], GeneratedKernel] = lambda k: k,
) -> str:
    inputs = p.random_inputs(1)
    expected, bounds = p.expected(inputs)
    run = emulate(changed(template(program).kernel(p, schedule, A100)), inputs, time_limit=60.0, order=order)
    if run.status != "ok":
        return run.reason
    types = {o.name: o.dtype for o in p.operands()}
    within = [np.all(np.abs(types[n].load(run.outputs[n]) - v) <= bounds[n]) for n, v in expected.items()]
    return "ok" if all(within) else "wrong"


@pytest.mark.parametrize("path", spread(CASES, 2))
def test_peeled_loops_are_right(path: str) -> None:
    program, p = example(path, CASES[path])
    for n, schedule in enumerate(peeled(program, p, 2)):
        assert outcome(program, p, schedule, Order("random", seed=n)) == "ok", schedule


@pytest.mark.parametrize("path", ["attention.py:full_attention", "cross_entropy.py"])
def test_a_tail_without_masks_is_reported(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: peeled iterations have no masks either, so they access elements beyond the arrays' ends."""
    program, p = example(path, CASES[path])
    (schedule,) = peeled(program, p)
    interval = Index.interval
    monkeypatch.setattr(
        Index,
        "interval",
        lambda self, blocks, iterations: interval(self, blocks, {n: t - 1 for n, t in iterations.items()}),
    )
    assert outcome(program, p, schedule, Order("random", seed=1)) != "ok"


def test_a_copy_of_the_last_tile_as_a_complete_one_is_reported() -> None:
    program, p = example("gemm_relu.py", CASES["gemm_relu.py"])
    (schedule,) = peeled(program, p)

    def changed(kernel: GeneratedKernel) -> GeneratedKernel:
        texts = dict(kernel.headers.files)
        name, old = "autosched/tile/ring.cuh", "left > ahead + 1"
        assert texts[name].count(old) == 1
        texts[name] = texts[name].replace(old, "left > ahead")
        return dataclasses.replace(kernel, headers=Headers.of(texts))

    assert outcome(program, p, schedule, ASCENDING) == "ok"
    assert outcome(program, p, schedule, ASCENDING, changed) != "ok"


def test_iterations_before_the_last_have_no_mask() -> None:
    program, p = example("attention.py:full_attention", CASES["attention.py:full_attention"])
    (schedule,) = peeled(program, p)
    source = template(program).kernel(p, schedule, A100).source
    full, last = re.findall(r"\[&\]\(unsigned stage.*?\n  \}\)?[,;]?", source, re.DOTALL)[:2]
    assert "__int_as_float(0xff800000)" in last and "if (!" in last
    assert "if (!" not in full
    masked = Schedule.from_json(program.name, {**schedule.values, "tail": "masked"})
    assert "if (!" in template(program).kernel(p, masked, A100).source


def test_old_schedules_are_masked() -> None:
    program, p = example("cross_entropy.py", CASES["cross_entropy.py"])
    (schedule,) = peeled(program, p)
    space = template(program).space(p, A100)
    old = Schedule.from_json(program.name, {n: v for n, v in schedule.values.items() if n != "tail"})
    assert space.config(old)["tail"] == "masked"


@program(x=Input("m n", "f32"), out=Output("m", "f32"))
def row_sums(p: Builder, x: Array, out: Array) -> None:
    """Sum rows with fixed sizes. The first loop can be peeled, but the second loop has no partial iteration."""
    (i,) = p.blocks((x.shape[0],), (16,))
    total = p.state(p.zeros((16, 1)))
    for j in p.steps(x.shape[1], 64):
        total.set(total + p.reduction("add", p.load(p.window(x, (i, j), (16, 64))), dim=1))
    for j in p.steps(64, 32):
        total.set(total + p.reduction("maximumf", p.load(p.window(x, (i, j), (16, 32))), dim=1))
    p.store(total, p.window(out, (i, 0), (16, 1), column=True))


def test_without_open_sizes() -> None:
    p = problem(row_sums, m=32, n=150)
    for schedule in peeled(row_sums, p, 2):
        assert outcome(row_sums, p, schedule, ASCENDING) == "ok", schedule


def test_the_tail_parameter_exists_only_for_indivisible_sizes() -> None:
    """The parameter exists only if a step does not divide a size.

    With wgmma, its only value is "masked", because TMA fills boxes with zeros.
    """
    program, p = example("gemm_relu.py", {"m": 70, "n": 72, "k": 512})
    assert not any(q.name == "tail" for q in template(program).space(p, A100).parameters)
    program, p = example("gemm_relu.py", {"m": 256, "n": 256, "k": 344})
    space = template(program).space(p, H100)
    choices = {(s.values["intrinsic"], s.values["tail"]) for s in space.sample(200, 0)}
    assert choices == {
        ("wgmma_m64k16_f16", "masked"), ("mma_m16n8k16_f16", "masked"), ("mma_m16n8k16_f16", "peeled"),
    }  # fmt: skip
    inference = choices_of(p).first
    (loop,) = tails.peelable(inference)
    assert (
        tails.without_last_iteration(inference.trace.iterations(), loop)[loop] == inference.trace.iterations()[loop] - 1
    )


def test_a_peeled_main_loop_has_the_instructions_of_a_divisible_size() -> None:
    """Count instructions per iteration of a GEMM on sm_80 for k = 4104, which is not a multiple of the step 32."""
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    values: dict[str, int | str] = {
        "bm": 128, "bn": 128, "bk": 32, "subgroups_m": 2, "subgroups_n": 4, "intrinsic": "mma_m16n8k16_f16",
        "stages": 3,
        "min_blocks": 1, "raster": "row", "split_k": 1, "store_1": "direct", "exchange": "pad(4,1)",
    }  # fmt: skip
    for side, layout, columns in (("a", "swizzle(2,3,3)", 4), ("b", "swizzle(3,3,4)", 16)):
        copy = {"layout": layout, "copy": "cp.async", "vector": 8, "copy_columns": columns}
        values |= {f"{name}_{side}": value for name, value in copy.items()}
    iterations = {}
    for k, tail in ((4096, None), (4104, "masked"), (4104, "peeled")):
        program, p = example("gemm_relu.py", {"m": 4096, "n": 4096, "k": k})
        schedule = Schedule.from_json(program.name, values | ({} if tail is None else {"tail": tail}))
        result = shared_pool().compile(template(program).kernel(p, schedule, A100), A100.arch)
        assert not isinstance(result, CompileFailure), result.reason
        iterations[k, tail] = mix(main_loop(disassemble(result.cubin, result.entry))).instructions
    assert iterations[4104, "peeled"] <= iterations[4096, None] < iterations[4104, "masked"], iterations
