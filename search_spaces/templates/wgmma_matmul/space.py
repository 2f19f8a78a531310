"""The space of wgmma matmul schedules: validity constraints and pruning rules.

The kernel is ``autosched/kernels/wgmma_matmul.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.hardware.wgmma import (
    CORE_LINES,
    N_OF,
    ROWS,
    SWIZZLES,
    WARPGROUP,
)
from search_spaces.operators.matmul import SCALE_BLOCK, Matmul
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import (
    SIDES,
    along_k,
    box_of,
    store_line,
    why_not_stored,
    why_too_narrow,
)
from search_spaces.templates.common.cache_hints import l2_evict_last, l2_evict_last_rule
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.persistent import TILES_PER_BLOCK
from search_spaces.templates.common.raster import raster, raster_rule
from search_spaces.templates.wgmma_matmul.fragments import (
    a_operand_source,
    descriptors_take,
    fragment_pruning,
    fragment_registers,
    fragment_rules,
)
from search_spaces.templates.wgmma_matmul.movement import (
    copies,
    copy_pruning,
    ends_bytes,
    movement_rules,
    producer_registers,
)
from search_spaces.templates.wgmma_matmul.persistent import launched_blocks, persistent_pruning, persistent_rules
from search_spaces.templates.wgmma_matmul.problem import row_of, tiling
from search_spaces.templates.wgmma_matmul.registers import (
    END_REGISTERS,
    MOST_REGISTERS,
    REGISTER_OVERHEAD,
    REGISTER_STEP,
    register_rules,
    spill_rules,
)

BARRIER_BYTES = 16  # bytes of shared memory for the two mbarriers of a stage
FLAG_BYTES = 16  # bytes of shared memory for the flag that marks the last block of a split
# if tile_n is above CLOSE_COLUMNS, it is a multiple of COLUMNS_APART instead of 8
COLUMNS_APART, CLOSE_COLUMNS = (
    16,
    32,
)
BALANCED_N = 64  # smallest tile_n for which a wgmma reads shared memory at least as fast as it multiplies
# smallest number of stages that hides latency: one stage is multiplied while copies to two stages are in flight
FEW_STAGES = 3
FULL_WAVES = 2  # with this number of blocks per SM or more, splitting k adds no parallelism
MOST_CLUSTER = 4  # largest number of blocks per cluster; larger clusters leave SMs of a GPC idle


@lru_cache(maxsize=64)
def space(problem: Matmul, device: Device, *, transposed: bool = False, name: str = "wgmma_matmul") -> Space:
    """Return all schedules of ``problem`` on ``device``.

    Args:
        problem: The problem.
        device: The GPU.
        transposed: True if out is stored transposed, from registers.
        name: Name of the template.
    """
    return Space(
        name,
        parameters(problem, transposed=transposed),
        attributes(problem, device),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        covering=("stream_k", "ping_pong"),
    )


def parameters(problem: Matmul, *, transposed: bool = False) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    span = 128 // problem.input_dtype.bytes
    # With block scales, wgmma adds up one k-tile, and other registers accumulate the scaled sums.
    in_blocks = problem.scale == "block"
    return (
        ordinal("tile_m", (64, 128, 192, 256, 320), "rows of the workgroup tile of out"),
        ordinal("tile_n", _columns(problem), "columns of the workgroup tile of out; also the n of one wgmma"),
        ordinal(
            "tile_k",
            (SCALE_BLOCK,) if in_blocks else (span, 2 * span),
            "extent along k of the tiles in one pipeline stage",
        ),
        ordinal(
            "consumer_warpgroups",
            (1, 2, 3),
            "number of warpgroups that multiply; each computes some of the tile's rows",
        ),
        ordinal("swizzle_a", SWIZZLES, "width in bytes of the swizzle of a's boxes; 0: no swizzle"),
        ordinal("swizzle_b", SWIZZLES, "width in bytes of the swizzle of b's boxes; 0: no swizzle"),
        ordinal(
            "stages",
            (2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
            "number of k-tiles that shared memory holds at the same time",
            deeper=True,
        ),
        ordinal(
            "in_flight",
            (0,) if in_blocks else (0, 1),
            "k-tiles whose multiplications may be unfinished when the next k-tile's multiplications begin",
            deeper=True,
        ),
        a_operand_source(problem),
        *copies(problem),
        producer_registers(problem),
        ordinal("min_blocks", (1, 2), "blocks per SM for which the compiler limits registers"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16), "number of blocks that share the k range of one tile"),
        raster(hilbert=True, at_launch=True),
        ordinal(
            "store_buffers",
            (0,) if transposed else (0, 1, 2, 4, 8),
            "boxes (64 rows of out each) that each consumer keeps in shared memory for TMA stores; 0: the consumer "
            "stores from registers. If the boxes hold the consumer's whole part of a tile, one barrier is enough",
        ),
        ordinal("tiles_per_block", TILES_PER_BLOCK, "tiles of out that a block computes one after another"),
        ordinal(
            "ping_pong", (0, 1), "1: two consumers compute alternate tiles of a block; 0: consumers share each tile"
        ),
        ordinal(
            "stream_k",
            (0, 1),
            "1: the k ranges of the last tiles are distributed among all blocks, so that all blocks finish together",
        ),
        ordinal(
            "cluster_m",
            (1, 2, 4),
            "blocks of a cluster along m. They use the same columns of b: each block copies a part of them for all "
            "blocks",
        ),
        ordinal(
            "cluster_n",
            (1, 2, 4),
            "blocks of a cluster along n. They use the same rows of a: each block copies a part of them for all blocks",
        ),
        ordinal("l2_promotion", (128, 256), "bytes that L2 fetches from DRAM at a time for TMA", at_launch=True),
        l2_evict_last(),
    )


def _columns(problem: Matmul) -> tuple[int, ...]:
    """Return all values of tile_n. With block scales, a tile has whole blocks of columns, or lies within one block."""
    if problem.scale == "block":
        return 8, 16, 32, 64, 128  # 256 columns would need more registers than a thread has
    return N_OF[problem.multiplied_as]


def attributes(problem: Matmul, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes
    long_end = problem.epilogue not in ("none", "relu") or problem.scale == "row_column"
    overhead = REGISTER_OVERHEAD + (END_REGISTERS if long_end else 0)

    def consumer_registers(
        consumer_warpgroups: IntArray, producer_registers: IntArray, threads: IntArray, min_blocks: IntArray
    ) -> IntArray:
        """Return the maximum number of registers per thread that consumers can get.

        If the warpgroups together request more registers than the block was launched with, setmaxnreg waits forever
        (PTX ISA, "setmaxnreg").
        """
        left = (consumer_warpgroups + 1) * register_limit(device, threads, min_blocks) - producer_registers
        most = left // consumer_warpgroups // REGISTER_STEP * REGISTER_STEP
        return np.where(producer_registers > 0, np.minimum(most, MOST_REGISTERS), 0)

    return (
        *tiling(problem).attributes(),
        Attribute(
            "threads",
            lambda consumer_warpgroups, producer_registers: (
                WARPGROUP * consumer_warpgroups + np.where(producer_registers > 0, WARPGROUP, WARP)
            ),
            "threads of a block",
        ),
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
        Attribute(
            "store_line",
            each(lambda tile_n: store_line(tile_n, problem.out_dtype.bytes)),
            "bytes of a row of out in one box in shared memory",
        ),
        Attribute(
            "store_bytes",
            lambda consumer_warpgroups, store_buffers, store_line: (
                consumer_warpgroups * store_buffers * ROWS * store_line
            ),
            "shared-memory bytes of the boxes of out",
        ),
        ends_bytes(problem),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, ends_bytes, stages, store_bytes: (
                (stage_bytes + ends_bytes + BARRIER_BYTES) * stages + store_bytes + FLAG_BYTES
            ),
            "dynamic shared memory of a block, in bytes",
        ),
        launched_blocks(device),
        Attribute(
            "accumulators",
            lambda tile_m, tile_n, consumer_warpgroups, ping_pong: ceil_div(
                tile_m * tile_n, problem.sums_of_register * WARPGROUP * _sharing(consumer_warpgroups, ping_pong)
            ),
            "registers of a consumer's thread for accumulators; two f16 accumulators share a register",
        ),
        Attribute(
            "needed_registers",
            lambda accumulators, tile_m, tile_k, consumer_warpgroups, ping_pong, a_operand_source: (
                (2 if problem.scale == "block" else 1) * accumulators
                + overhead
                + fragment_registers(
                    problem, tile_m, tile_k, _sharing(consumer_warpgroups, ping_pong), a_operand_source
                )
            ),
            "lower bound of the registers of a consumer's thread",
        ),
        Attribute(
            "consumer_registers",
            consumer_registers,
            "registers of a consumer's thread after reallocation; 0: no reallocation",
        ),
        Attribute(
            "registers",
            lambda needed_registers, consumer_warpgroups, producer_registers, consumer_registers: np.where(
                producer_registers > 0,
                ceil_div(producer_registers + consumer_warpgroups * consumer_registers, consumer_warpgroups + 1),
                needed_registers,
            ),
            "lower bound of the registers of a thread at launch; the mean of all warpgroups if they reallocate "
            "registers",
        ),
    )


def validity_constraints(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        Rule(
            "consumer_warpgroups",
            lambda tile_m, consumer_warpgroups, ping_pong: np.equal(
                tile_m % (ROWS * _sharing(consumer_warpgroups, ping_pong)), 0
            ),
            "tile_m is {tile_m}, which does not give each of {consumer_warpgroups} consumers a multiple of "
            f"{ROWS} rows, the m of wgmma",
        ),
        *(_layout_rule(problem, side) for side in SIDES),
        *_cluster_rules(problem),
        *movement_rules(problem),
        *fragment_rules(),
        _store_rule(problem),
        *persistent_rules(problem, device),
        *register_rules(problem, device),
        tiling(problem).split_rule(),
        *tiling(problem).grid_rules(parameters(problem)),
        *device_rules(device),
    )


def _sharing(consumer_warpgroups: IntArray, ping_pong: IntArray) -> IntArray:
    """Return the number of consumers that share the rows of a tile."""
    return np.where(ping_pong > 0, 1, consumer_warpgroups)


def _cluster_rules(problem: Matmul) -> tuple[Rule, ...]:
    def whole(axis: str, other: OperandSide) -> tuple[Rule, Rule]:
        extent = int(getattr(problem, axis))
        names = {"tile": f"tile_{axis}", "cluster": f"cluster_{axis}"}
        extent_of_other = "tile_n" if other == "b" else "tile_m"
        lines = extent_of_other if along_k(problem, other) else "tile_k"
        return (
            Rule(
                f"cluster_{axis}",
                lambda tile, cluster: np.equal(ceil_div(extent, tile) % cluster, 0),
                lambda tile, cluster: (
                    f"cluster_{axis} is {cluster}, which does not divide the {-(-extent // tile)} tiles of {tile} "
                    f"along {axis} = {extent}"
                ),
                names=names,
            ),
            Rule(
                f"multicast_{other}",
                lambda lines, cluster: np.equal(lines % (cluster * CORE_LINES), 0),
                f"the {{cluster}} blocks of a cluster along {axis} cannot share the lines of a box equally in groups "
                f"of {CORE_LINES}: a box of {other} has {{lines}} lines",
                names={"lines": lines, "cluster": f"cluster_{axis}"},
            ),
        )

    return (
        *whole("m", "b"),
        *whole("n", "a"),
        Rule(
            "cluster_size",
            lambda cluster_m, cluster_n: cluster_m * cluster_n <= MOST_CLUSTER,
            f"clusters of {{cluster_m}} x {{cluster_n}} blocks have more than {MOST_CLUSTER}",
        ),
    )


def _store_rule(problem: Matmul) -> Rule:
    element_bytes = problem.out_dtype.bytes
    unstored = why_not_stored(problem)

    def why_not(tile_m: int, tile_n: int, consumer_warpgroups: int, ping_pong: int, store_buffers: int) -> str | None:
        if store_buffers == 0:
            return None
        if unstored is not None:
            return unstored
        fragments = tile_m // (ROWS * (1 if ping_pong else consumer_warpgroups))
        boxes = fragments * (tile_n * element_bytes // store_line(tile_n, element_bytes))
        if boxes % store_buffers:
            return f"{store_buffers} boxes in shared memory do not divide the {boxes} boxes of a consumer's tile"
        return None

    return Rule.refusing("store_buffers", why_not, "TMA stores out box by box")


def _layout_rule(problem: Matmul, side: OperandSide) -> Rule:
    row = row_of(problem, 256)

    def why_not(extent: int, tile_k: int, swizzle: int) -> str | None:
        box = box_of(problem, side, extent, tile_k, swizzle)
        if isinstance(box, str):
            return box
        if side == "a" and not descriptors_take(problem):
            return None  # wgmma reads a from registers, so its descriptors need not support the layout
        answer = row.requirement(side, box, problem.input_dtype.bytes)
        return answer.reason if isinstance(answer, Refusal) else None

    return Rule.refusing(
        f"layout_{side}",
        why_not,
        f"the tile of {side} consists of whole boxes, whose layout wgmma can read",
        names={"extent": "tile_m" if side == "a" else "tile_n", "swizzle": f"swizzle_{side}"},
    )


def pruning_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    split = tiling(problem)
    return (
        *split.covering_rules(parameters(problem)),
        _columns_rule(problem),
        *(_swizzle_rule(problem, side) for side in SIDES),
        split.stages_rule(),
        split.split_waves_rule(device, FULL_WAVES),
        raster_rule(("tile_m", "tile_n"), (problem.m, problem.n)),
        *persistent_pruning(problem, device),
        l2_evict_last_rule(problem, device),
        *copy_pruning(problem, device),
        *fragment_pruning(problem),
        *spill_rules(device),
        split.narrow_rule(device, BALANCED_N),
        _few_stages_rule(problem, device),
        Rule(
            "ping_pong_in_flight",
            lambda ping_pong, in_flight: np.equal(ping_pong, 0) | np.equal(in_flight, 1),
            "with ping_pong = {ping_pong}, only one consumer multiplies at a time: with {in_flight} k-tiles in flight, "
            "the tensor cores would be idle after each k-tile",
        ),
    )


def _columns_rule(problem: Matmul) -> Rule:
    covering = min((n for n in _columns(problem) if n >= problem.n), default=0)
    return Rule(
        "columns",
        lambda tile_n: np.equal(tile_n % COLUMNS_APART, 0) | (tile_n <= CLOSE_COLUMNS) | np.equal(tile_n, covering),
        f"tile_n is {{tile_n}}, but above {CLOSE_COLUMNS} only multiples of {COLUMNS_APART} are tried, and the "
        f"smallest tile that covers n = {problem.n}",
    )


def _few_stages_rule(problem: Matmul, device: Device) -> Rule:
    split = tiling(problem)

    def enough(
        stages: IntArray, tile_k: IntArray, split_k: IntArray, stage_bytes: IntArray, ends_bytes: IntArray,
        store_bytes: IntArray, min_blocks: IntArray,
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        tiles = split.tiles_of_split(tile_k, split_k)
        bytes_of_more = (stage_bytes + ends_bytes + BARRIER_BYTES) * FEW_STAGES + store_bytes + FLAG_BYTES
        room = device.shared_per_sm // min_blocks - device.reserved_shared_per_block
        return np.asarray((stages >= FEW_STAGES) | (tiles < FEW_STAGES) | (bytes_of_more > room))

    return Rule(
        "few_stages",
        enough,
        f"shared memory is sufficient for {FEW_STAGES} stages, which hide more load latency than {{stages}} stages",
    )


def _swizzle_rule(problem: Matmul, side: OperandSide) -> Rule:
    return Rule.refusing(
        f"swizzle_{side}",
        partial(why_too_narrow, problem, side),
        names={"extent": "tile_m" if side == "a" else "tile_n", "swizzle": f"swizzle_{side}"},
    )
