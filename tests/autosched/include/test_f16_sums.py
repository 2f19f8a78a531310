"""f16 matmuls that accumulate in f16 are compiled and emulated, also with planted faults."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache

import pytest
from cases import representative
from compiling import shared_pool
from header_edits import edited
from kernels import generate, space_of
from needs import needs_compiler, needs_nvrtc

from measurements.compiler.pool import Compiled
from measurements.emulator import FindingKind, emulate
from measurements.trials.comparison import check
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

WGMMA = {
    "tile_m": 64, "tile_n": 64, "tile_k": 64, "consumer_warpgroups": 1, "swizzle_a": 128, "swizzle_b": 128, "stages": 2,
    "in_flight": 1, "producer_registers": 0, "min_blocks": 1, "split_k": 1, "raster": "row", "store_buffers": 0,
    "tiles_per_block": 1, "ping_pong": 0, "stream_k": 0, "cluster_m": 1, "cluster_n": 1, "l2_promotion": 128,
    "l2_evict_last": "none",
}  # fmt: skip
MATMUL = {
    "tile_m": 64, "tile_n": 32, "tile_k": 32, "intrinsic": "mma_m16n8k16_f16_f16", "subgroups_m": 2, "subgroups_n": 1,
    "sg_data_m": 32, "sg_data_n": 32, "layout_a": "swizzle(2,3,3)", "layout_b": "swizzle(2,3,3)", "copy_a": "cp.async",
    "copy_b": "cp.async", "vector_a": 8, "vector_b": 8, "copy_columns_a": 4, "copy_columns_b": 4, "stages": 2,
    "unroll": 2, "fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "split_k": 1, "raster": "row",
    "stream_k": 0, "batch_mapping": "outer",
}  # fmt: skip
TURNED = {"layout_b": "transpose+swizzle(2,3,3)"}
K8 = {"intrinsic": "mma_m16n8k8_f16_f16", "unroll": 4}
# In this schedule each thread has one fragment, in two registers.
PAIRS = {"tile_m": 32, "tile_n": 16, "subgroups_n": 2, "sg_data_m": 16, "sg_data_n": 8, "vector_b": 4}
CASES: dict[str, tuple[str, Matmul, str, dict[str, int | str]]] = {
    "mma, split, odd lines": (
        "rtx4090", Matmul(70, 41, 200, acc="f16", order_b="col", epilogue="bias+silu", batch=2), "matmul",
        {**MATMUL, **TURNED, "split_k": 3},
    ),
    "mma of k8, stream-K of single fragments": (
        "a100", Matmul(150, 24, 136, acc="f16", out="f32"), "matmul",
        {**MATMUL, **PAIRS, **K8, "stream_k": 1},
    ),
    "wgmma, gelu in parts, by TMA": (
        "h200", Matmul(140, 136, 200, acc="f16", epilogue="bias+gelu", order_b="col"), "wgmma_matmul",
        {**WGMMA, "tile_n": 96, "store_buffers": 1},
    ),
    "wgmma of 8 columns, stream-K": (
        "h200", Matmul(300, 8, 264, acc="f16"), "wgmma_matmul",
        {**WGMMA, "tile_n": 8, "swizzle_b": 0, "tiles_per_block": 3, "stream_k": 1},
    ),
    "mma of k8, turned, with row sums": (
        "rtx3090", Matmul(70, 40, 100, acc="f16", order_a="col", reduction="row_sum", epilogue="relu"), "matmul",
        {**MATMUL, **K8, "layout_a": "transpose+swizzle(3,3,3)", "copy_columns_a": 8, "vector_a": 2, "vector_b": 8,
         "epilogue": "shared"},
    ),
    "mma, two buffers, through shared memory": (
        "a100", Matmul(70, 40, 200, acc="f16", out="bf16", epilogue="bias+gelu"), "matmul",
        {**MATMUL, "fragment_buffers": 2, "epilogue": "shared"},
    ),
    "wgmma of 24 columns, a from registers, split": (
        "h200", Matmul(140, 45, 400, acc="f16", out="f32", order_a="col"), "wgmma_matmul",
        {**WGMMA, "tile_n": 24, "swizzle_b": 0, "copy_b": "cp.async", "a_operand_source": "registers", "in_flight": 0,
         "split_k": 2},
    ),
    "wgmma with sides exchanged": (
        "h200", Matmul(40, 136, 400, acc="f16", batch=2, epilogue="bias", order_b="col"), "wgmma_matmul_transposed",
        {**WGMMA, "tile_n": 40},
    ),
    "wgmma ping-pong, of two fragments": (
        "h200", Matmul(296, 136, 264, acc="f16", epilogue="silu", order_a="col"), "wgmma_matmul",
        {**WGMMA, "tile_m": 128, "consumer_warpgroups": 2, "ping_pong": 1, "tiles_per_block": 2,
        "producer_registers": 40,
         "tile_n": 80, "swizzle_b": 0, "store_buffers": 2},
    ),
}  # fmt: skip


@cache
def generated_case(name: str) -> tuple[Matmul, GeneratedKernel]:
    chip, problem, kind, values = CASES[name]
    return problem, generate(problem, Schedule.from_json(kind, values), device(chip))


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("name", representative(CASES, *list(CASES)[:4]))
def test_kernels_compile_and_match_the_reference(name: str, nightly: bool) -> None:
    """Compile for the device, and emulate the PTX with random and with edge-case inputs."""
    problem, kernel = generated_case(name)
    result = shared_pool().compile(kernel, device(CASES[name][0]).arch)
    assert isinstance(result, Compiled) and result.resources.spill_store_bytes == 0
    stress = [case.inputs for case in problem.stress_inputs(1)]
    for inputs in (problem.random_inputs(0), *stress[: None if nightly else 1]):
        run = emulate(kernel, inputs)
        assert run.ok, (run.reason, run.findings)
        assert check(problem, inputs, run.outputs).ok


K = FindingKind
WRONG = "wrong numbers"
NUMERIC, STREAM_K = "autosched/common/numeric.cuh", "autosched/common/stream_k.cuh"
MMA, WGMMA_MATMUL = "autosched/intrinsics/mma_sync.cuh", "autosched/kernels/wgmma_matmul.cuh"
SPLIT, SINGLE, GELU, NARROW, TURNED_K8, *_ = CASES


@dataclass(frozen=True)
class Fault:
    """A planted fault: ``new`` replaces ``old`` in the header. Emulating ``case`` must report a kind in ``kinds``."""

    name: str
    case: str
    header: str
    old: str
    new: str
    kinds: tuple[str, ...] = (WRONG,)


FAULTS = (
    Fault("halves exchanged", SPLIT, NUMERIC, "return i % 2 == 0 ?", "return i % 2 == 1 ?"),
    Fault("pairs added as integers", SPLIT, NUMERIC, "return a = ptx::add_rn(a, b);",
          "return a = f16x2(unsigned(a) + unsigned(b));"),
    Fault("one half added", SPLIT, "autosched/ptx/arithmetic.cuh", "add.rn.f16x2 %0, %1, %2;",
          "{.reg .b16 l, h, k, m; mov.b32 {l, h}, %1; mov.b32 {k, m}, %2; add.rn.f16 l, l, k; mov.b32 %0, {l, h};}"),
    Fault("a register for each sum", SPLIT, NUMERIC, "registers[i / 2]) : ", "registers[i / 2 ^ 1]) : "),
    Fault("vectors of two are four sums apart", SINGLE, STREAM_K, "sums += thread * vector;", "sums += thread * 4;",
          (K.OUT_OF_BOUNDS_GLOBAL, K.GLOBAL_RACE, WRONG)),
    Fault("the second half of k8", TURNED_K8, MMA, "lane / 8 % (matrices_k * Group) / matrices_k * 8",
          "lane / 8 % (2 * Group) / 2 * 8"),
    Fault("rows of k8 exchanged", SINGLE, "autosched/ptx/mma/mma.cuh",
          "f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}", "f16.f16.f16.f16 {%0, %1}, {%3, %2}, {%4}"),
    Fault("sums move twice as far", GELU, WGMMA_MATMUL, "together * Box::registers / Plan::paired",
          "together * Box::registers"),
    Fault("even sums alone", GELU, WGMMA_MATMUL, "b * Box::registers + r + 1)", "b * Box::registers + r)"),
    Fault("columns exchanged", NARROW, "autosched/ptx/wgmma/in_f16.cuh", '#define AUTOSCHED_PAIRS8 "%0, %1"',
          '#define AUTOSCHED_PAIRS8 "%1, %0"'),
)  # fmt: skip


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    "fault", representative(FAULTS, *(fault.name for fault in FAULTS[:2])), ids=lambda fault: fault.name
)
def test_planted_faults_are_found(fault: Fault) -> None:
    problem, kernel = generated_case(fault.case)
    wrong = dataclasses.replace(kernel, headers=edited(kernel.headers, fault.header, fault.old, fault.new))
    inputs = problem.random_inputs(0)
    run = emulate(wrong, inputs)
    kinds = {str(f.kind) for f in run.findings} or ({WRONG} if not check(problem, inputs, run.outputs).ok else set())
    assert kinds & {str(f) for f in fault.kinds}, (run.reason, kinds)


@pytest.mark.parametrize(("chip", "unit"), [("a100", "mma"), ("rtx4090", "mma"), ("h200", "wgmma")])
def test_spaces_of_f16_sums_only_offer_f16_accumulation(chip: str, unit: str) -> None:
    problem, target = Matmul(512, 512, 512, acc="f16"), device(chip)
    schedules = list(space_of(problem, target).sample(12, seed=0))
    assert {s["intrinsic"] for s in schedules if s.template == "matmul"} == {"mma_m16n8k16_f16_f16"}
    assert any(s.template == "wgmma_matmul" for s in schedules) == (unit == "wgmma")
    few = Matmul(8, 512, 512, acc="f16", order_b="col")
    assert template("matvec").why_not(few, target) == "matvec kernels accumulate in f32, but acc is f16"


def test_accumulators_take_half_the_registers() -> None:
    for kind, values in (("matmul", MATMUL), ("wgmma_matmul", WGMMA)):
        schedule = Schedule.from_json(kind, values)
        wide = Schedule.from_json(kind, {**values, "intrinsic": "mma_m16n8k16_f16"} if kind == "matmul" else values)
        in_f16, in_f32 = (
            template(kind).config(Matmul(128, 128, 256, acc=acc), s, device("h200"))
            for acc, s in (("f16", schedule), ("f32", wide))
        )
        saved = in_f32.integer("accumulators") // 2
        assert in_f16.integer("accumulators") == saved
        assert in_f32.integer("registers") - in_f16.integer("registers") == saved
