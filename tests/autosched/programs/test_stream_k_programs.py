"""Stream-K of tile programs: blocks with several tiles, shared tiles, the reduced problem, rules, registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import spread
from compiling import shared_pool
from program_schedules import Values, filled, operand

from autosched.programs.loading import load_program, problem
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, mix, nvdisasm
from measurements.compiler.pool import CompileFailure
from measurements.emulator import Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.planning.splits import COUNTERS
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.template import template
from search_spaces.templates.matmul.stream_k import streams

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
A100 = device("a100")
SMALL = replace(A100, sm_count=2)
ORDERS = [Order("ascending"), pytest.param(Order("random", 3), marks=pytest.mark.nightly)]


def gemm(**changes: int | str) -> Values:
    return {
        "bm": 64, "bn": 64, "bk": 32, "intrinsic": "mma_m16n8k16_f16", "subgroups_m": 2, "subgroups_n": 2,
        **operand("a", "pad(8,1)", 4, 8), **operand("b", "pad(8,1)", 8, 4), "stages": 3, "split_k": 1, "stream_k": 1,
        "tail": "masked", "store_1": "direct", "exchange": "pad(4,1)", "min_blocks": 1, "raster": "row",
    } | changes  # fmt: skip


def outcome(p: ProgramProblem, kernel: GeneratedKernel, order: Order) -> str:
    """Return "ok", another status of the emulator, or "wrong" for wrong results."""
    inputs = p.random_inputs(1)
    run = emulate(kernel, inputs, time_limit=60.0, order=order)
    if run.status != "ok":
        return str(run.status)
    expected, bounds = p.expected(inputs)
    types = {o.name: o.dtype for o in p.operands()}
    right = all(np.all(np.abs(types[n].load(run.outputs[n]) - v) <= bounds[n]) for n, v in expected.items())
    return "ok" if right else "wrong"


@pytest.mark.parametrize("order", spread(ORDERS, 1), ids=["ascending", "random"])
@pytest.mark.parametrize(
    ("name", "sizes", "values"),
    [
        ("gemm_relu", {"m": 140, "n": 140, "k": 136}, gemm()),
        ("gemm_relu", {"m": 140, "n": 140, "k": 136}, gemm(stages=1, raster="grouped_2")),
        ("gemm_relu", {"m": 140, "n": 140, "k": 136}, gemm(tail="peeled", stages=2)),
        ("gemm_relu", {"m": 140, "n": 140, "k": 136}, gemm(store_1="turned")),
        ("gemm_relu", {"m": 140, "n": 140, "k": 136}, gemm(intrinsic="wmma_m16n16k16_f16")),
        ("gated_mlp", {"m": 190, "n": 190, "k": 104}, gemm()),
    ],
)
def test_schedules_are_right(name: str, sizes: dict[str, int], values: Values, order: Order) -> None:
    """Nine tiles are computed by a few blocks. Some tiles are computed by a single block, and the others by several."""
    p = problem(load_program(str(EXAMPLES / f"{name}.py")), **sizes)
    kernel_template = template(p.program)
    if name == "gated_mlp":
        values = dict(
            next(s for s in kernel_template.space(p, SMALL).valid.sample(400, 1) if s.integer("stream_k")).values
        )
    schedule = filled(p, values, SMALL)
    assert kernel_template.space(p, SMALL).valid.explain(schedule) == []
    kernel = kernel_template.kernel(p, schedule, SMALL)
    assert kernel.blocks in (2, 4) and kernel.chained
    assert outcome(p, kernel, order) == "ok"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("ptx::barrier_sync();  // everybody is done with the part before", ""),
        ("both.tell_stored();", ""),
        ("both.wait_stored();", ""),
        (f"{COUNTERS} + 2 * cut", f"{COUNTERS} + 2 * 0"),
        ("first_turn * 32", "0 * 32"),
    ],
)
def test_planted_faults_are_reported(line: str, instead: str) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=140, n=140, k=136)
    kernel = template(p.program).kernel(p, filled(p, gemm(store_1="turned"), SMALL), replace(A100, sm_count=4))
    assert line in kernel.source
    faulty = replace(kernel, source=kernel.source.replace(line, instead))
    assert any(outcome(p, faulty, order) != "ok" for order in (Order("ascending"), Order("random", 3)))


EARLY = gemm(bk=64, copy_columns_a=8, store_1="turned")  # here the epilogue's exchange buffer fits into the last stage
FIRST_BARRIER = 'ptx::barrier_sync();\n#line 17 "gemm_relu.py"\n  next = walk.next();'


@pytest.mark.parametrize("order", spread(ORDERS, 1), ids=["ascending", "random"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"store_1": "direct", "stages": 2},
        {"tail": "peeled", "stages": 2},
        {"stages": 4, "min_blocks": 2},
        {"fragment_buffers": 2},
        {"fragment_buffers": 2, "stages": 2, "tail": "peeled"},
        {"copy_a": "ld.global", "store_1": "direct"},
        {"intrinsic": "wmma_m16n16k16_f16"},
    ],
    ids=str,
)
def test_the_ring_is_filled_for_the_next_part_early(changes: Values, order: Order) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=140, n=140, k=264)
    schedule = filled(p, EARLY | changes, SMALL)
    assert template(p.program).space(p, SMALL).valid.explain(schedule) == []
    kernel = template(p.program).kernel(p, schedule, SMALL)
    assert "start(next);" in kernel.source and "everybody is done with the part before" not in kernel.source
    assert outcome(p, kernel, order) == "ok"


@pytest.mark.parametrize(
    "changes", [{"stages": 1}, {"bk": 32, "copy_columns_a": 4}], ids=["one stage", "a larger exchange"]
)
def test_the_ring_is_not_filled_early_without_free_stages(changes: Values) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=140, n=140, k=264)
    kernel_template, schedules = template(p.program), [filled(p, EARLY | c, SMALL) for c in ({}, changes)]
    early, late = (kernel_template.kernel(p, s, SMALL) for s in schedules)
    assert "start(next);" in early.source and "start(next);" not in late.source
    restarts = [counts(p, kernel_template.space(p, SMALL).config(s), SMALL).restarts for s in schedules]
    assert restarts[0] == 0 and restarts[1] > 0
    unsplit = kernel_template.space(p, SMALL).config(filled(p, EARLY | {"stream_k": 0}, SMALL))
    assert early.dynamic_shared_bytes == unsplit.integer("shared_bytes")


@pytest.mark.parametrize(
    ("changes", "line", "instead"),
    [
        ({}, FIRST_BARRIER, "next = walk.next();"),
        ({"fragment_buffers": 2, "stages": 2}, "Ring_5, 4, false, true>", "Ring_5, 4, false>"),
        ({}, "shared + 36864u", "shared + 0u"),
        ({}, "loads_of(part, Ring_5::stages - 1)", "loads_of(part, 0)"),
        ({}, "start(next);", "start(part);"),
        ({}, "start(next);", ""),
        ({}, "Ring_5, true>", "Ring_5>"),
    ],
    ids=["barrier", "begun anew", "place of results", "first turn", "part", "nothing started", "begun"],
)
def test_planted_faults_of_early_copies_are_reported(changes: Values, line: str, instead: str) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=140, n=140, k=264)
    kernel = template(p.program).kernel(p, filled(p, EARLY | changes, SMALL), SMALL)
    assert line in kernel.source, kernel.source
    faulty = replace(kernel, source=kernel.source.replace(line, instead))
    assert any(outcome(p, faulty, order) != "ok" for order in (Order("ascending"), Order("random", 3)))


def test_the_reduced_problem_has_a_partial_wave() -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    kernel_template = template(p.program)
    streamed = [s for s in kernel_template.space(p, A100).sample(300, 1) if s.integer("stream_k")]
    assert len(streamed) > 10
    for schedule in streamed[:10]:
        small = kernel_template.proxy(p, schedule)  # type: ignore[misc]
        bm, bn = schedule.integer("bm"), schedule.integer("bn")
        tiles = -(-small.m // bm) * -(-small.n // bn)
        assert streams(tiles) and tiles <= 9
        assert kernel_template.kernel(small, schedule, A100).blocks < tiles


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"split_k": 2}, "use only one of them"),
        ({"bm": 128, "bn": 128}, "no partial wave"),
    ],
)
def test_invalid_stream_k_schedules_are_rejected(changes: Values, reason: str) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=256, n=256, k=200)
    violations = template(p.program).space(p, SMALL).valid.explain(filled(p, gemm() | changes, SMALL))
    assert any(reason in str(t) for t in violations), violations


def test_wgmma_schedules_have_no_stream_k() -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    for schedule in template(p.program).space(p, device("h100")).sample(300, 1):
        assert not (schedule.integer("stream_k") and schedule.text("intrinsic").startswith("wgmma"))


def test_counts_divide_the_work_between_blocks() -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    space = template(p.program).space(p, A100)
    unsplit, shared = (
        counts(p, space.config(filled(p, gemm(bm=128, bn=128, subgroups_n=4, stream_k=s), SMALL)), A100) for s in (0, 1)
    )
    assert (unsplit.blocks, shared.blocks) == (1024, 108)
    assert shared.flops * shared.blocks == pytest.approx(unsplit.flops * unsplit.blocks)
    assert shared.iterations == -(-1024 * 128 // 108)


def test_the_loop_keeps_its_instructions() -> None:
    """With 128x128x32 tiles, 8 warps, 3 stages, stream-K adds at most 10% instructions per iteration, and no spills."""
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    tiles = {"bm": 128, "bn": 128, "subgroups_n": 4}
    tiles |= operand("a", "swizzle(2,3,3)", 4, 8) | operand("b", "swizzle(3,3,4)", 16, 8)  # type: ignore[operator]
    mixes = []
    for stream_k in (0, 1):
        kernel = template(p.program).kernel(p, filled(p, gemm(stream_k=stream_k, **tiles), SMALL), A100)
        result = shared_pool().compile(kernel, A100.arch)
        assert not isinstance(result, CompileFailure), result.reason
        assert result.resources.spill_store_bytes == 0
        mixes.append(mix(main_loop(disassemble(result.cubin, result.entry))))
    assert dict(mixes[1].kinds)["tensor"] == dict(mixes[0].kinds)["tensor"]
    assert mixes[1].instructions <= 1.1 * mixes[0].instructions, mixes
