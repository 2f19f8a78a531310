"""The space of mma.sync matmul schedules with TMA loads: validity constraints and pruning rules.

The kernel is ``autosched/kernels/tma_matmul.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.hardware.wgmma import alignment
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import TextColumn, ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import SIDES, along_k, box_of
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.raster import raster, raster_rule
from search_spaces.templates.matmul.decisions import (
    REGISTER_OVERHEAD,
    epilogue_attributes,
    fragment_attributes,
    tiling,
)
from search_spaces.templates.matmul.pruning import (
    BODY_LIMIT,
    BUFFER_REGISTERS,
    FULL_WAVES,
    part_rules,
    rounding_rule,
    tensor_core_rules,
    tile_size_rules,
)
from search_spaces.templates.matmul.space import intrinsic_rules, map_rules, scale_words_rule
from search_spaces.templates.matmul.stream_k import launched_blocks, stream_k, stream_k_pruning, stream_k_rules
from search_spaces.templates.tma_matmul.problem import rows_of

BARRIER_BYTES = 16  # bytes of the two mbarriers of a stage in shared memory
# Registers with which a thread iterates over parts of tiles (stream-K). Without these registers, a kernel with 94
# counted registers and a limit of 96 spilled 12 bytes (NVRTC 13.5, sm_120, 2026-11-24).
WALK_REGISTERS = 8
# Size in bytes of a block's flag in shared memory. The flag's value is 0 if the block is the first of the two that
# share a tile.
FLAG_BYTES = 16
MIN_BLOCKS = (1, 2, 3)
SWIZZLES = (32, 64, 128)
# smallest number of stages that hides latency: one stage is multiplied while copies to two stages are in flight
FEW_STAGES = 3


@lru_cache(maxsize=64)
def space(problem: Matmul, device: Device, *, name: str = "tma_matmul") -> Space:
    """Return all schedules of ``problem`` on ``device`` for the template ``name``."""
    return Space(
        name,
        parameters(problem, device),
        attributes(problem, device),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        stratified_by="intrinsic",
    )


def parameters(problem: Matmul, device: Device) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    tiles = (16, 32, 64, 96, 128, 192, 256)
    sg_data = (8, 16, 32, 48, 64, 96, 128)
    return (
        ordinal("tile_m", tiles, "rows of the workgroup tile of out"),
        ordinal("tile_n", tiles, "columns of the workgroup tile of out"),
        ordinal(
            "tile_k",
            tuple(b // problem.input_dtype.bytes for b in (32, 64, 128, 256)),
            "extent along k of the tiles in one pipeline stage",
        ),
        categorical(
            "intrinsic", tuple(row.name for row in rows_of(problem, device)), "instruction that multiplies fragments"
        ),
        ordinal("subgroups_m", (1, 2, 4, 8), "subgroups along m"),
        ordinal("subgroups_n", (1, 2, 4, 8), "subgroups along n"),
        ordinal("sg_data_m", sg_data, "rows of one subgroup's sub-tile"),
        ordinal("sg_data_n", sg_data, "columns of one subgroup's sub-tile"),
        ordinal("swizzle_a", SWIZZLES, "width in bytes of the swizzle of a's boxes"),
        ordinal("swizzle_b", SWIZZLES, "width in bytes of the swizzle of b's boxes"),
        ordinal(
            "stages", (2, 3, 4, 5, 6, 8), "number of k-tiles that shared memory holds at the same time", deeper=True
        ),
        ordinal(
            "fragment_buffers",
            (1, 2),
            "number of steps along k whose fragments a warp holds; with 2, the fragments of the next step are loaded "
            "during the current step",
        ),
        categorical(
            "epilogue", ("registers", "shared"), "how accumulators are stored: from registers or through shared memory"
        ),
        ordinal("min_blocks", MIN_BLOCKS, "blocks per SM for which the compiler limits registers"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16), "number of blocks that share the k range of one tile"),
        stream_k(problem),
        raster(at_launch=True),
        categorical(
            "batch_mapping",
            ("outer", "inner") if problem.batch > 1 else ("outer",),
            "whether the batch index changes slowest or fastest with the block index",
        ),
        ordinal("l2_promotion", (128, 256), "bytes that L2 fetches from DRAM at a time for TMA", at_launch=True),
    )


def attributes(problem: Matmul, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes
    return (
        *tiling(problem).attributes(),
        launched_blocks(device),
        Attribute(
            "multiplying_threads",
            lambda subgroups_m, subgroups_n: subgroups_m * subgroups_n * WARP,
            "number of threads of a block that multiply",
        ),
        Attribute("threads", lambda multiplying_threads: multiplying_threads + WARP, "threads of a block"),
        Attribute(
            "stage_bytes_a",
            lambda tile_m, tile_k: tile_m * tile_k * element_bytes,
            "shared-memory bytes of the tile of operand a in one stage",
        ),
        Attribute(
            "stage_bytes_b",
            lambda tile_n, tile_k: tile_n * tile_k * element_bytes,
            "shared-memory bytes of the tile of operand b in one stage",
        ),
        Attribute(
            "stage_bytes",
            lambda stage_bytes_a, stage_bytes_b: stage_bytes_a + stage_bytes_b,
            "shared-memory bytes of one stage",
        ),
        *epilogue_attributes(problem),
        Attribute(
            "result_bytes",
            lambda epilogue, epilogue_bytes, stream_k: np.where(
                epilogue == "shared", epilogue_bytes, FLAG_BYTES * (stream_k > 0)
            ),
            "shared-memory bytes for results; they reuse the stages, except with stream_k, which needs additional "
            "memory",
        ),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, stages, result_bytes, stream_k: (
                np.where(
                    stream_k > 0, stage_bytes * stages + result_bytes, np.maximum(stage_bytes * stages, result_bytes)
                )
                + BARRIER_BYTES * stages
            ),
            "dynamic shared memory of a block, in bytes",
        ),
        Attribute(
            "accumulators",
            lambda tile_m, tile_n, multiplying_threads: ceil_div(
                tile_m * tile_n, problem.sums_of_register * multiplying_threads
            ),
            "registers of a thread for accumulators; two f16 accumulators share a register",
        ),
        *fragment_attributes(),
        Attribute(
            "registers",
            lambda accumulators, fragment_registers_a, fragment_registers_b, fragment_buffers: (
                accumulators + fragment_buffers * (fragment_registers_a + fragment_registers_b) + REGISTER_OVERHEAD
            ),
            "lower bound of the registers of a thread",
        ),
    )


def validity_constraints(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        *map_rules(),
        *intrinsic_rules(problem, device),
        *scale_words_rule(problem),
        *(_layout_rule(problem, side, device) for side in SIDES),
        Rule(
            "fragment_steps",
            each(
                lambda fragment_buffers, tile_k, intrinsic: (
                    fragment_buffers == 1 or tile_k // intrinsics.intrinsic(intrinsic).k % 2 == 0
                )
            ),
            "two buffers of fragments need an even number of steps, but tile_k = {tile_k} has an odd number of "
            "steps of {intrinsic}",
        ),
        tiling(problem).split_rule(),
        *stream_k_rules(problem, device),
        *tiling(problem).grid_rules(parameters(problem, device)),
        *device_rules(device),
    )


def _layout_rule(problem: Matmul, side: OperandSide, device: Device) -> Rule:
    element_bytes, row = problem.input_dtype.bytes, rows_of(problem, device)[0]

    def why_not(extent: int, tile_k: int, swizzle: int, other: int) -> str | None:
        box = box_of(problem, side, extent, tile_k, swizzle)
        if isinstance(box, str):
            return box
        stage, repeats = extent * tile_k * element_bytes, alignment(max(swizzle, other))
        if stage % repeats:
            return f"a stage of {side} has {stage} bytes, not a multiple of the wider swizzle's period of {repeats}"
        answer = row.requirement(side, box, element_bytes)
        return answer.reason if isinstance(answer, Refusal) else None

    return Rule.refusing(
        f"layout_{side}",
        why_not,
        f"the tile of {side} consists of whole boxes, whose layout ldmatrix can read",
        names={
            "extent": "tile_m" if side == "a" else "tile_n",
            "swizzle": f"swizzle_{side}",
            "other": "swizzle_b" if side == "a" else "swizzle_a",
        },
    )


def pruning_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    split = tiling(problem)
    return (
        *tile_size_rules(problem),
        _code_size_rule(),
        *(_swizzle_rule(problem, side) for side in SIDES),
        split.stages_rule(),
        _few_stages_rule(problem, device),
        raster_rule(("tile_m", "tile_n"), (problem.m, problem.n)),
        *tensor_core_rules(problem, device),
        *part_rules(problem, device, threads="multiplying_threads"),
        rounding_rule(device),
        _spill_rule(device),
        split.split_waves_rule(device, FULL_WAVES),
        *stream_k_pruning(problem, device, MIN_BLOCKS[-1]),
    )


def _swizzle_rule(problem: Matmul, side: OperandSide) -> Rule:
    """Return the rule that the widest swizzle is used, because it has no conflicts and needs the fewest boxes."""
    element_bytes = problem.input_dtype.bytes

    def widest(across: IntArray, swizzle: IntArray) -> BoolArray:
        line = across * element_bytes
        wide: BoolArray = np.equal(swizzle, 128) | np.not_equal(line % (2 * swizzle), 0)
        return wide

    across = "tile_k" if along_k(problem, side) else "tile_m" if side == "a" else "tile_n"
    return Rule(
        f"swizzle_{side}",
        widest,
        f"boxes of {side} are {{swizzle}} bytes wide, but a line of {{across}} elements can also be divided into boxes "
        "of twice the width: half as many boxes are then needed, without bank conflicts",
        names={"across": across, "swizzle": f"swizzle_{side}"},
    )


def _few_stages_rule(problem: Matmul, device: Device) -> Rule:
    split = tiling(problem)

    def enough(
        stages: IntArray, tile_k: IntArray, split_k: IntArray, stage_bytes: IntArray, min_blocks: IntArray,
        result_bytes: IntArray, stream_k: IntArray,
    ) -> BoolArray:  # fmt: skip
        room = device.shared_per_sm // min_blocks - device.reserved_shared_per_block - result_bytes * (stream_k > 0)
        hidden: BoolArray = (
            (stages >= FEW_STAGES)
            | (split.tiles_of_split(tile_k, split_k) < FEW_STAGES)
            | ((stage_bytes + BARRIER_BYTES) * FEW_STAGES > room)
        )
        return hidden

    return Rule(
        "few_stages",
        enough,
        f"shared memory is sufficient for {FEW_STAGES} stages, which hide more load latency than {{stages}} stages",
    )


def _code_size_rule() -> Rule:
    results = each(lambda name: intrinsics.intrinsic(name).results)
    depth = each(lambda name: intrinsics.intrinsic(name).k)

    def short(accumulators: IntArray, intrinsic: TextColumn, tile_k: IntArray) -> BoolArray:
        fits: BoolArray = accumulators * tile_k <= BODY_LIMIT * results(intrinsic) * depth(intrinsic)
        return fits

    return Rule(
        "code_size",
        short,
        f"{{accumulators}} accumulators with all of tile_k = {{tile_k}} unrolled make a loop body of over {BODY_LIMIT} "
        "arithmetic instructions",
    )


def _spill_rule(device: Device) -> Rule:
    def fits(
        registers: IntArray, fragment_buffers: IntArray, threads: IntArray, min_blocks: IntArray, stream_k: IntArray
    ) -> BoolArray:
        more = BUFFER_REGISTERS * (fragment_buffers > 1) + WALK_REGISTERS * (stream_k > 0)
        enough: BoolArray = registers + more <= register_limit(device, threads, min_blocks)
        return enough

    return Rule(
        "spilled_registers",
        fits,
        "about {registers} registers per thread, with {fragment_buffers} buffers of fragments and stream_k = "
        "{stream_k}, are too many for {threads} threads with {min_blocks} blocks per SM: ptxas would spill",
    )
