"""Tile programs that multiply with wgmma.

The programs are verified in the emulator, and the machine code for sm_90a is examined. Planted faults of barriers are
reported.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases import representative, spread
from compiling import shared_pool
from edited_kernel import edited_kernel
from needs import needs_recorded_lengths
from program_outcome import outcome
from program_schedules import Values
from wgmma_schedules import (
    ATTENTION,
    CAUSAL,
    GEMM,
    H100,
    attention,
    boxes,
    gemm,
    legal,
    program_at,
    scaled_rows,
    stored_transposed,
)

from autosched.programs.loading import problem
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, mix, nvdisasm
from measurements.compiler.pool import CompileFailure
from search_spaces.programs.builder import Program
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule


@pytest.mark.parametrize(
    ("source", "sizes", "values"),
    spread([
        (GEMM, {"m": 136, "n": 72, "k": 200}, gemm()),
        (GEMM, {"m": 136, "n": 72, "k": 200}, gemm(in_flight=1, subgroups_m=8)),
        (GEMM, {"m": 136, "n": 72, "k": 200}, gemm(filled_by="tma", stages=1, subgroups_m=8)),
        (GEMM, {"m": 67, "n": 76, "k": 134}, gemm(filled_by="threads", stages=4)),
        (GEMM, {"m": 67, "n": 72, "k": 134}, gemm(filled_by="tma", stages=2, store_1="turned")),
        (GEMM, {"m": 136, "n": 72, "k": 520}, gemm(in_flight=1, split_k=3)),
        (GEMM, {"m": 136, "n": 72, "k": 520}, gemm(filled_by="tma", split_k=2)),
        (CAUSAL, {"h": 2, "g": 1, "s": 100, "d": 64}, attention()),
        (CAUSAL, {"h": 2, "g": 1, "s": 136, "d": 64}, attention(filled_by="tma", home_q="registers", store_1="turned")),
        (ATTENTION, {"h": 1, "g": 1, "s": 200, "d": 64}, attention(filled_by="threads", subgroups_m_1=8,
        subgroups_m_2=8)),
        ("attention.py:causal_attention_bf16", {"h": 1, "g": 1, "s": 200, "d": 128}, attention("bf16", stages=1)),
        (
            stored_transposed, {"m": 136, "n": 72, "k": 72},
            {**gemm("bf16"), **boxes("at", "transpose+swizzle(3,3,3)"), **boxes("bt", "transpose+swizzle(2,3,3)")},
        ),
        (
            scaled_rows, {"m": 72, "n": 72, "k": 136},
            {**gemm(), **boxes("x", "swizzle(3,3,3)"), **boxes("w", "swizzle(3,3,3)")},
        ),
    ], 9),
    ids=lambda value: value.name if isinstance(value, Program) else None,
)  # fmt: skip
def test_schedules_are_right(source: str | Program, sizes: dict[str, int], values: Values) -> None:
    p = problem(program_at(source), **sizes)
    assert outcome(p, template(p.program).kernel(p, legal(p, values), H100)) == "ok"


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (GEMM, {"m": 80, "n": 136, "k": 104}),
        ("gated_mlp.py", {"m": 65, "n": 136, "k": 72}),
        ("layernorm_matmul.py", {"m": 70, "n": 72, "k": 88}),
        ("matmul_softmax.py", {"m": 70, "n": 64, "k": 72}),
        ("rope_matmul.py", {"m": 70, "n": 64, "k": 72, "half": 32}),
    ],
)
def test_sampled_schedules_are_right(source: str, sizes: dict[str, int], nightly: bool) -> None:
    p = problem(program_at(source), **sizes)
    space = template(p.program).space(p, H100)
    ranks = next(s.ranks for s in space.strata if str(s.value).startswith("wgmma"))
    chosen = [ranks[i] for i in np.random.default_rng(3).integers(len(ranks), size=8 if nightly else 1)]
    for schedule in space.schedules(space.unrank(chosen)):
        assert outcome(p, template(p.program).kernel(p, schedule, H100)) == "ok", schedule


BOXES, RING = "autosched/tile/boxes.cuh", "autosched/tile/box_ring.cuh"
SPLIT, LAST = "autosched/tile/split.cuh", "autosched/common/last_block.cuh"


FAULTS = [
    "expect_tx", "expected_bytes", "empty_phase", "flight", "release_in_flight", "last_flight", "full",
    "full_phase", "release", "early_release", "parity",
    "expect_tx_of_all", "slot", "proxy_fence", "fence", "wait", "init", "step", "accumulate",
    "sum", "parts", "last", "first_turn",
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "old", "new", "filled_by"),
    representative([
        (RING, "    ptx::mbarrier_arrive_expect_tx(stage.full(), Loads::tma_bytes);\n", "", "warp"),
        (RING, "expect_tx(stage.full(), Loads::tma_bytes)", "expect_tx(stage.full(), Loads::tma_bytes / 2)", "warp"),
        (RING, "stage.parity ^ 1u", "stage.parity", "warp"),
        (RING, "ptx::wgmma_wait_group<1>();", "", "flying"),
        (RING, "      if (s > 0) release(unreleased);\n      unreleased = stage.empty();\n",
         "      release(stage.empty());\n", "flying"),
        (RING, "    ptx::wgmma_wait_group<0>();\n    if (steps", "    if (steps", "flying"),
        (RING, "wait_phase(stage.full(), stage.parity);\n    body", "body", "warp"),
        (RING, "wait_phase(stage.full(), stage.parity);\n    body", "wait_phase(stage.full(), 0);\n    body", "warp"),
        (RING, "    if (lane == 0) ptx::mbarrier_arrive(empty);\n", "", "warp"),
        (RING, "    body(stage.tile, s);\n    if constexpr (C::in_flight == 0) {\n      release(stage.empty());\n",
         "    release(stage.empty());\n    body(stage.tile, s);\n    if constexpr (C::in_flight == 0) {\n", "warp"),
        (RING, "    parity ^= 1u;\n", "", "warp"),
        (RING, "        ptx::mbarrier_arrive_expect_tx(next.full(), Loads::tma_bytes);\n", "", "tma"),
        (RING, "    ptx::barrier_sync();  // all threads have completed their copies", "    // all threads", "tma"),
        (RING, "ptx::fence_async_proxy();  // makes this thread's copies visible", "//", "threads"),
        ("", "ptx::wgmma_fence();\n", "", "warp"),
        ("", "ptx::wgmma_wait_group<0>();\n", "", "warp"),
        ("", "  ptx::barrier_sync();\n  if (warp", "  if (warp", "warp"),
        (BOXES, "a + OfA::advance(step, ", "a + OfA::advance(0, ", "warp"),
        (BOXES, "accumulate || step > 0", "step > 0", "warp"),
        (SPLIT, "add(x[r], of_bits", "(of_bits", "split"),
        (SPLIT, "p < Parts", "p < Parts - 1", "split"),
        (LAST, "blocks - 1", "blocks - 2", "split"),
        ("", "const int split = int(blockIdx.x) / 1, first_turn = split * 3;", "const int split = int(blockIdx.x) / 1, "
         "first_turn = 0;", "split"),
    ], "expect_tx", "empty_phase", "release_in_flight", "full", "proxy_fence", "wait", "sum", "last", ids=FAULTS),
    ids=FAULTS,
)  # fmt: skip
def test_faults_are_reported(where: str, old: str, new: str, filled_by: str) -> None:
    p = problem(program_at(GEMM), m=128, n=64, k=384)
    changes: dict[str, Values] = {"flying": {"filled_by": "warp", "in_flight": 1}, "split": {"split_k": 2}}
    how = changes.get(filled_by, {"filled_by": filled_by})
    kernel = template(p.program).kernel(p, legal(p, gemm(stages=2, subgroups_m=8, **how)), H100)
    assert outcome(p, edited_kernel(kernel, where, old, new)) != "ok"


def test_unsupported_uses_of_wgmma_are_rejected_with_a_reason() -> None:
    p = problem(program_at("int4_matmul.py"), m=40, n=72, k=64, half=32, groups=2)
    space = template(p.program).space(p, H100)
    assert any("computed" in v.reason for v in _violations(space, p, "boxed_products"))
    p = problem(program_at(GEMM), m=128, n=70, k=134)
    reasons = [v.reason for v in _violations(template(p.program).space(p, H100), p, "filled_by", filled_by="tma")]
    assert any("a multiple of 16 bytes" in r for r in reasons), reasons


def _violations(space, p, rule, **changes):  # type: ignore[no-untyped-def]
    (some,) = space.valid.sample(1, 1)
    values = {**some.values, "intrinsic": next(v for v in _intrinsics(space) if v.startswith("wgmma")), **changes}
    return [v for v in space.valid.explain(Schedule.from_json(p.program.name, values)) if v.rule == rule]


def _intrinsics(space):  # type: ignore[no-untyped-def]
    return next(q.values for q in space.parameters if q.name == "intrinsic")


@needs_recorded_lengths
@pytest.mark.parametrize(
    ("source", "sizes", "values", "most", "multiplications"),
    [
        (GEMM, {"m": 4096, "n": 4096, "k": 4096}, gemm(bm=128, bn=256, subgroups_m=8, stages=4), 40, 4),
        (GEMM, {"m": 4096, "n": 4096, "k": 4096}, gemm(bn=256, subgroups_m=8, stages=4, in_flight=1), 44, 4),
        (ATTENTION, {"h": 16, "g": 16, "s": 4096, "d": 64}, attention(bn=128, subgroups_m_1=8, subgroups_m_2=8), 400,
        12),
        (ATTENTION, {"h": 16, "g": 16, "s": 4096, "d": 128}, attention(subgroups_m_1=8, subgroups_m_2=8), 290, 12),
        (ATTENTION, {"h": 16, "g": 16, "s": 4096, "d": 128}, attention(subgroups_m_1=8, subgroups_m_2=8, ping_pong=1,
        filled_by="warp"), 290, 12),
    ],
    ids=["gemm", "gemm_in_flight", "attention_64", "attention_128", "attention_in_turns"],
)  # fmt: skip
def test_loops_multiply_by_wgmma(
    source: str, sizes: dict[str, int], values: Values, most: int, multiplications: int
) -> None:
    """Loops multiply only with HGMMA, have few other instructions and no spills. ptxas does not serialise wgmma."""
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    p = problem(program_at(source), **sizes)
    kernel = template(p.program).kernel(p, legal(p, values), H100)
    result = shared_pool().compile(kernel, H100.arch)
    assert not isinstance(result, CompileFailure), result.reason
    body = main_loop(disassemble(result.cubin, result.entry))
    loop = mix(body)
    assert sum("HGMMA" in str(i) for i in body) == multiplications == dict(loop.kinds)["tensor"], loop.kinds
    assert loop.instructions <= most, loop.kinds
    assert result.resources.spill_store_bytes == 0


@pytest.mark.parametrize("ping_pong", [0, 1])
@pytest.mark.parametrize(("d", "bn"), [(64, 128), (128, 64)])
def test_attention_is_not_longer_than_tritons(d: int, bn: int, ping_pong: int) -> None:
    """On sm_90a, with 128 rows, 8 warps and 2 stages, an iteration has at most 1.03x the instructions of Triton's."""
    loops = pytest.importorskip("benchmarks.search.triton_loops", reason="needs Triton", exc_type=ImportError)
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    triton_loop = loops.attention_loop(128, bn, d, 8, 2, sm=90)
    p = problem(program_at(ATTENTION), h=16, g=16, s=4096, d=d)
    values = attention(bn=bn, subgroups_m_1=8, subgroups_m_2=8, ping_pong=ping_pong)
    kernel = template(p.program).kernel(p, legal(p, values), H100)
    result = shared_pool().compile(kernel, H100.arch)
    assert not isinstance(result, CompileFailure), result.reason
    loop = mix(main_loop(disassemble(result.cubin, result.entry)))
    assert loop.count("tensor") == triton_loop.tensor
    assert loop.instructions <= 1.03 * triton_loop.loop_instructions, (loop.instructions, triton_loop)
