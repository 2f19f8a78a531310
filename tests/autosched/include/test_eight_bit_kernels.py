"""Compile and emulate kernels for 8-bit types, and wgmma kernels for tf32, for GPUs that have these instructions."""

from __future__ import annotations

import pytest
from cases import representative
from compiling import shared_pool
from kernels import generate, space_of
from needs import needs_compiler, needs_nvrtc

from measurements.compiler.pool import Compiled
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

# The cases contain each template, each operand type that has a separate instruction, and each output type once.
WGMMA = {
    "tile_m": 128, "tile_n": 48, "tile_k": 128, "consumer_warpgroups": 2, "swizzle_a": 128, "swizzle_b": 64,
    "stages": 2,
    "in_flight": 1, "producer_registers": 24, "min_blocks": 1, "split_k": 1, "raster": "row", "store_buffers": 1,
    "tiles_per_block": 1, "ping_pong": 0, "stream_k": 0, "cluster_m": 1, "cluster_n": 1, "l2_promotion": 128,
    "l2_evict_last": "none",
}  # fmt: skip
MATMUL = {
    "tile_m": 64, "tile_n": 32, "tile_k": 64, "intrinsic": "", "subgroups_m": 2, "subgroups_n": 1, "sg_data_m": 32,
    "sg_data_n": 32, "layout_a": "swizzle(2,4,3)", "layout_b": "transpose+swizzle(2,4,3)", "copy_a": "cp.async",
    "copy_b": "cp.async", "vector_a": 16, "vector_b": 16, "copy_columns_a": 4, "copy_columns_b": 4, "stages": 2,
    "unroll": 2, "fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "split_k": 1, "raster": "row",
    "batch_mapping": "outer",
}  # fmt: skip
CASES: dict[str, tuple[str, Matmul, str, dict[str, int | str]]] = {
    "wgmma e4m3, scaled lines": (
        "h200", Matmul(140, 56, 400, a="e4m3", scale="row_column", epilogue="bias+relu"), "wgmma_matmul", WGMMA,
    ),
    "wgmma e4m3, scaled blocks": (
        "h200", Matmul(140, 56, 400, a="e4m3", scale="block"), "wgmma_matmul", {**WGMMA, "tile_n": 32, "in_flight": 0},
    ),
    "wgmma e5m2, scaled blocks, split": (
        "h200", Matmul(140, 300, 400, a="e5m2", scale="block", epilogue="bias+relu", batch=2), "wgmma_matmul",
        {**WGMMA, "tile_n": 128, "in_flight": 0, "store_buffers": 0, "split_k": 2, "swizzle_b": 128},
    ),
    "wgmma e4m3, scaled blocks, taking turns": (
        "h200", Matmul(256, 256, 528, a="e4m3", scale="block"), "wgmma_matmul",
        {**WGMMA, "tile_m": 64, "tile_n": 64, "in_flight": 0, "ping_pong": 1, "tiles_per_block": 2, "cluster_m": 2},
    ),
    "wgmma i8 sums, split": (
        "h200", Matmul(140, 44, 400, a="i8"), "wgmma_matmul", {**WGMMA, "split_k": 2, "store_buffers": 0},
    ),
    "mma e4m3, scaled lines": (
        "rtx4090", Matmul(70, 40, 208, a="e4m3", scale="row_column"), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_e4m3", "epilogue": "shared"},
    ),
    "wgmma i8, scaled, from registers": (
        "h200", Matmul(140, 44, 400, a="i8", scale="row_column", batch=2), "wgmma_matmul",
        {**WGMMA, "store_buffers": 0},
    ),
    "wgmma e4m3 with sides exchanged, scaled": (
        "h200", Matmul(40, 136, 400, a="e4m3", scale="row_column", batch=2, epilogue="bias"), "wgmma_matmul_transposed",
        {**WGMMA, "store_buffers": 0},
    ),
    "mma e5m2, scaled, from registers": (
        "rtx4090", Matmul(70, 41, 208, a="e5m2", scale="row_column", batch=2), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_e5m2"},
    ),
    "mma i8, scaled, with row sums": (
        "a100", Matmul(70, 40, 208, a="i8", scale="tensor", reduction="row_sum"), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_i8", "epilogue": "shared"},
    ),
    "mma i8 to f16, through shared memory": (
        "a100", Matmul(70, 40, 208, a="i8", out="f16", epilogue="bias+gelu"), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_i8", "epilogue": "shared"},
    ),
    "wgmma e5m2": ("h200", Matmul(140, 56, 400, a="e5m2", out="f32", batch=2), "wgmma_matmul", WGMMA),
    "wgmma i8 sums, by TMA": ("h200", Matmul(140, 56, 400, a="i8"), "wgmma_matmul", WGMMA),
    "wgmma i8 to f16": ("h200", Matmul(140, 56, 400, a="i8", out="f16", epilogue="gelu"), "wgmma_matmul", WGMMA),
    "wgmma tf32": (
        "h200", Matmul(140, 56, 100, a="f32", order_b="col"), "wgmma_matmul", {**WGMMA, "tile_k": 32},
    ),
    "mma i8 sums, through shared memory, split": (
        "a100", Matmul(70, 40, 208, a="i8"), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_i8", "epilogue": "shared", "split_k": 2},
    ),
    "mma i8 to f16, with row sums": (
        "a100", Matmul(70, 40, 208, a="i8", out="f16", reduction="row_sum"), "matmul",
        {**MATMUL, "intrinsic": "mma_m16n8k32_i8", "epilogue": "shared"},
    ),
    "fma e4m3": (
        "a100", Matmul(70, 40, 208, a="e4m3"), "matmul",
        {**MATMUL, "intrinsic": "fma_m16n32k1", "sg_data_m": 32, "sg_data_n": 32},
    ),
    "fma i8": (
        "a100", Matmul(12, 40, 208, a="i8"), "matmul",
        {**MATMUL, "intrinsic": "fma_m16n32k1", "tile_m": 16, "subgroups_m": 1, "sg_data_m": 16, "vector_a": 4},
    ),
}  # fmt: skip


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    "name",
    representative(
        CASES, "wgmma e4m3, scaled lines", "wgmma e4m3, scaled blocks", "wgmma i8 sums, split", "mma e4m3, scaled lines"
    ),
)
def test_kernels_compile_and_match_the_reference(name: str, nightly: bool) -> None:
    """Compile for the device, and emulate the PTX with random and with edge-case inputs."""
    chip, problem, kind, values = CASES[name]
    schedule = Schedule.from_json(kind, values)
    target = device(chip)
    kernel = generate(problem, schedule, target)
    result = shared_pool().compile(kernel, target.arch)
    assert isinstance(result, Compiled) and result.resources.spill_store_bytes == 0
    stress = [case.inputs for case in problem.stress_inputs(1)]
    for inputs in (problem.random_inputs(0), *stress[: None if nightly else 1]):
        run = emulate(kernel, inputs)
        assert run.ok, (run.reason, run.findings)
        assert check(problem, inputs, run.outputs).ok


@pytest.mark.parametrize(("chip", "kind"), [("rtx4090", "e4m3"), ("h200", "i8"), ("h200", "e5m2")])
def test_spaces_offer_the_instructions_of_their_gpu(chip: str, kind: str) -> None:
    target, problem = device(chip), Matmul(512, 512, 512, a=kind)
    schedules = list(space_of(problem, target).sample(12, seed=0))
    assert {s["intrinsic"] for s in schedules if s.template == "matmul"} == {f"mma_m16n8k32_{kind}"}
    assert any(s.template == "wgmma_matmul" for s in schedules) == (chip == "h200")


def test_chips_without_the_instruction_multiply_8_bit_floats_on_cuda_cores() -> None:
    chip, problem, _, values = CASES["fma e4m3"]
    space = template("matmul").space(problem, device(chip))
    schedule = Schedule.from_json("matmul", values)
    rules = {v.rule: v.reason for v in space.explain(schedule)}
    assert not {"intrinsic_sm", "tensor_cores"} & set(rules)
    refused = {v.rule: v.reason for v in space.explain(schedule.replace(intrinsic="mma_m16n8k32_e4m3"))}
    assert refused["intrinsic_sm"] == "mma_m16n8k32_e4m3 needs sm_89, but a100 is sm_80"
