"""The space of tcgen05 matmul schedules: validity constraints and pruning rules.

The kernel is ``autosched/kernels/tcgen05_matmul.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.hardware.tcgen05 import ALLOCATION, COLUMNS, ROWS, SCALE_BYTES, SCALE_COLUMNS, SCALE_LINES, n_of
from search_spaces.hardware.wgmma import SWIZZLES
from search_spaces.operators.matmul import SCALE_BLOCK, Matmul
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import SIDES, box_of, store_line, why_not_stored, why_too_narrow
from search_spaces.templates.common.cache_hints import l2_evict_last, l2_evict_last_rule
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.persistent import (
    TILES_PER_BLOCK,
    tiles_that_end_together,
    why_no_stream_k,
    workers_of_launch,
)
from search_spaces.templates.common.raster import raster, raster_rule
from search_spaces.templates.common.stream_k import too_little_idle
from search_spaces.templates.tcgen05_matmul.problem import row_of, scale_tiles, scale_words, tiling

# Number of epilogue warps of a block, each of which can access a quarter of the lanes of tensor memory.
FINISHING_WARPS = 4
THREADS = (2 + FINISHING_WARPS) * WARP  # epilogue warps, one warp that copies, and one that multiplies
BARRIER_BYTES = 16  # bytes of shared memory for the two mbarriers of a stage or of a buffer of sums
# bytes of shared memory for the tensor-memory address of the sums, and for the flag of the last block of a split
ADDRESS_BYTES = 16
ANSWER_BYTES = 3 * (16 + BARRIER_BYTES)  # bytes of shared memory for the responses of launch control
LAUNCH_CONTROL = "launch_control"
REGISTERS = 96  # registers per thread: each thread of an epilogue warp holds 32 sums at a time
BALANCED_N = 128  # smallest tile_n for which reading shared memory takes no longer than multiplying
ALIGNMENT = 1024  # bytes of shared memory after which the swizzle pattern repeats
# smallest number of stages that hides latency: one stage is multiplied while copies to two stages are in flight
FEW_STAGES = 3
# If the grid has at least this number of blocks per SM, splitting k adds no parallelism, because an SM runs only one
# block at a time.
FULL_WAVES = 1


@lru_cache(maxsize=64)
def space(problem: Matmul, device: Device, *, transposed: bool = False, name: str = "tcgen05_matmul") -> Space:
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
        covering=("stream_k",),
    )


def parameters(problem: Matmul, *, transposed: bool = False) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    span = 128 // problem.input_dtype.bytes
    columns = n_of(problem.multiplied_as, 1)
    # scales are loaded for SCALE_LINES columns at a time, so tile_n must be a multiple of SCALE_LINES
    if problem.blocks:
        columns = tuple(n for n in columns if n % SCALE_LINES == 0)
    # Registers accumulate the sums of k-tiles, so tensor memory holds the sums of one k-tile only.
    in_blocks = problem.scale == "block"
    if in_blocks:
        columns = tuple(n for n in columns if SCALE_BLOCK % n == 0)
    return (
        ordinal("tile_m", (ROWS, 2 * ROWS), "rows of the tile of out that one block, or a pair of blocks, computes"),
        ordinal("tile_n", columns, "columns of the tile of out; also the n of one multiplication"),
        ordinal(
            "tile_k",
            (SCALE_BLOCK,) if in_blocks else (span, 2 * span),
            "extent along k of the tiles in one pipeline stage",
        ),
        ordinal("swizzle_a", SWIZZLES, "width in bytes of the swizzle of a's boxes; 0: no swizzle"),
        ordinal("swizzle_b", SWIZZLES, "width in bytes of the swizzle of b's boxes; 0: no swizzle"),
        ordinal(
            "stages", (2, 3, 4, 5, 6, 7, 8, 10, 12, 16), "number of k-tiles that shared memory holds at the same time"
        ),
        ordinal(
            "sum_buffers",
            (1, 2),
            "number of tiles of out that tensor memory holds; with 2, one tile is stored while the next is multiplied",
        ),
        ordinal(
            "split_k", (1, 2, 3, 4, 6, 8, 16), "number of blocks (or pairs of blocks) that share the k range of a tile"
        ),
        raster(hilbert=True, at_launch=True),
        ordinal(
            "store_buffers",
            (0,) if transposed else (0, 1, 2, 4),
            "boxes (32 rows of out each) that each warp keeps in shared memory for TMA stores; 0: the warp stores "
            "from registers",
        ),
        ordinal(
            "tiles_per_block",
            TILES_PER_BLOCK,
            "tiles of out that a block (or a pair of blocks) computes one after another",
        ),
        ordinal(
            "stream_k",
            (0, 1),
            "1: the k ranges of the last tiles are distributed among all blocks, so that all blocks finish together",
        ),
        categorical(
            "tile_scheduler",
            ("static", LAUNCH_CONTROL),
            "static: the tiles of a block are fixed; launch_control: a block takes over tiles of blocks that have not "
            "started",
        ),
        ordinal("l2_promotion", (128, 256), "bytes that L2 fetches from DRAM at a time for TMA", at_launch=True),
        l2_evict_last(),
    )


def _blocks_of(tile_m: IntArray) -> IntArray:
    """Return the number of blocks that compute one tile together."""
    return tile_m // ROWS


def attributes(problem: Matmul, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes
    return (
        *tiling(problem).attributes(),
        Attribute("threads", lambda tile_m: np.full_like(np.asarray(tile_m), THREADS), "threads of a block"),
        Attribute(
            "min_blocks",
            lambda tile_m: np.ones_like(np.asarray(tile_m)),
            "blocks per SM; one block allocates the tensor memory of an SM",
        ),
        Attribute(
            "stage_bytes_a",
            lambda tile_k: ROWS * tile_k * element_bytes,
            "shared-memory bytes of a block for the tile of operand a in one stage",
        ),
        Attribute(
            "stage_bytes_b",
            lambda tile_m, tile_n, tile_k: tile_n // _blocks_of(tile_m) * tile_k * element_bytes,
            "shared-memory bytes of a block for the tile of operand b in one stage",
        ),
        Attribute(
            "stage_bytes",
            each(
                lambda stage_bytes_a, stage_bytes_b, tile_n, tile_k: (
                    stage_bytes_a + stage_bytes_b + _scale_bytes(problem, tile_n, tile_k)
                )
            ),
            "shared-memory bytes of one stage, including block scales",
        ),
        Attribute(
            "store_line",
            each(lambda tile_n: store_line(tile_n, problem.out_dtype.bytes)),
            "bytes of a row of out in one box in shared memory",
        ),
        Attribute(
            "store_bytes",
            lambda store_buffers, store_line: FINISHING_WARPS * store_buffers * WARP * store_line,
            "shared-memory bytes of the boxes of out",
        ),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, stages, store_bytes, sum_buffers, tile_scheduler: (
                (stage_bytes + BARRIER_BYTES) * stages
                + store_bytes
                + BARRIER_BYTES * sum_buffers
                + ADDRESS_BYTES
                + ANSWER_BYTES * (tile_scheduler == LAUNCH_CONTROL)
            ),
            "dynamic shared memory of a block, in bytes",
        ),
        Attribute(
            "tensor_columns",
            each(
                lambda tile_n, tile_k, stages, sum_buffers: max(
                    ALLOCATION, 1 << (_columns(problem, tile_n, tile_k, stages, sum_buffers) - 1).bit_length()
                )
            ),
            "columns of tensor memory that a block allocates",
        ),
        Attribute("launched_blocks", each(partial(_launched_blocks, device)), "blocks of the launch"),
        Attribute(
            "registers",
            lambda tile_n: REGISTERS + (tile_n if problem.scale == "block" else np.zeros_like(tile_n)),
            "approximate registers of a thread",
        ),
    )


def _launched_blocks(
    device: Device, blocks: int, tile_m: int, tiles_per_block: int, stream_k: int, tile_scheduler: str
) -> int:
    """Return the number of blocks to launch.

    With launch control, this is the number of tiles; with stream-K, the number of resident blocks. Otherwise it is the
    smallest number for which no block has more than ``tiles_per_block`` tiles.
    """
    pair = tile_m // ROWS
    if tile_scheduler == LAUNCH_CONTROL:
        return blocks * pair
    if not stream_k:
        return -(-blocks // tiles_per_block) * pair
    return workers_of_launch(device.sms_of_clusters(pair) // pair, blocks, tiles_per_block) * pair


def validity_constraints(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        Rule(
            "columns",
            each(lambda tile_m, tile_n: tile_n in n_of(problem.multiplied_as, tile_m // ROWS)),
            "tile_n is {tile_n}, but must be a multiple of 32 if a pair of blocks computes a tile of {tile_m} rows and "
            f"multiplies {problem.multiplied_as}",
        ),
        *(_layout_rule(problem, side) for side in SIDES),
        Rule(
            "tensor_memory",
            lambda tile_n, sum_buffers: tile_n * sum_buffers <= COLUMNS,
            f"{{sum_buffers}} tiles of {{tile_n}} columns exceed the {COLUMNS} columns of tensor memory",
        ),
        *_block_scale_rules(problem),
        Rule(
            "sum_buffers",
            lambda sum_buffers, tiles_per_block: (
                (sum_buffers == 1) | (tiles_per_block > 1) | (problem.scale == "block")
            ),
            "{sum_buffers} sum buffers in tensor memory are useless if a block computes only {tiles_per_block} tile",
        ),
        _store_rule(problem),
        *_persistent_rules(problem, device),
        tiling(problem).split_rule(),
        *tiling(problem).grid_rules(parameters(problem)),
        *device_rules(device),
    )


def _persistent_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    def why_not(tile_m: int, tile_n: int, tiles_per_block: int, stream_k: int) -> str | None:
        if stream_k == 0:
            return None
        pair = tile_m // ROWS
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        return why_no_stream_k(tiles, device.sms_of_clusters(pair) // pair, tiles_per_block, pair)

    return (
        Rule(
            "tiles_per_block",
            lambda tiles_per_block, split_k: (tiles_per_block == 1) | (split_k == 1),
            "a block computes {tiles_per_block} tiles one after another, and {split_k} blocks share the k range of one "
            "tile: use either tiles_per_block or split_k",
        ),
        Rule.refusing("stream_k", why_not, "stream-K distributes the k ranges of the last tiles"),
        Rule(
            "stream_k_tiles",
            lambda tile_k, stream_k: (stream_k == 0) | (tile_k < problem.depth),
            f"stream-K distributes k-tiles, but k = {problem.depth} has only one k-tile of {{tile_k}}",
        ),
        Rule.refusing(
            "tile_scheduler",
            lambda tile_scheduler, tiles_per_block, stream_k: (
                None
                if tile_scheduler == "static" or (tiles_per_block > 1 and not stream_k)
                else "launch control needs tiles_per_block above 1, and excludes stream-K"
            ),
        ),
    )


def _scale_bytes(problem: Matmul, tile_n: int, tile_k: int) -> int:
    """Return the shared-memory bytes of a stage's scales, as a multiple of 1 KiB to keep the next stage aligned."""
    size = scale_words(problem, tile_k) * scale_tiles(tile_n) * SCALE_BYTES
    return -(-size // ALIGNMENT) * ALIGNMENT


def _columns(problem: Matmul, tile_n: int, tile_k: int, stages: int, sum_buffers: int) -> int:
    """Return the number of tensor-memory columns for the sums and for the scales of all stages."""
    return tile_n * sum_buffers + stages * scale_words(problem, tile_k) * scale_tiles(tile_n) * SCALE_COLUMNS


def _block_scale_rules(problem: Matmul) -> tuple[Rule, ...]:
    if not problem.blocks:
        return ()

    def too_many(tile_n: int, tile_k: int, stages: int, sum_buffers: int) -> str | None:
        columns = _columns(problem, tile_n, tile_k, stages, sum_buffers)
        if columns <= COLUMNS:
            return None
        return (
            f"{sum_buffers} tiles of {tile_n} columns and the scales of {stages} stages need {columns} of the "
            f"{COLUMNS} columns of tensor memory"
        )

    return (Rule.refusing("scale_columns", too_many),)


def _store_rule(problem: Matmul) -> Rule:
    unstored = why_not_stored(problem)
    return Rule.refusing(
        "store_buffers", lambda store_buffers: unstored if store_buffers else None, "TMA stores out box by box"
    )


def _extents(side: OperandSide, tile_m: int, tile_n: int) -> int:
    """Return the number of rows of a, or columns of b, in the shared memory of one block."""
    return ROWS if side == "a" else tile_n // (tile_m // ROWS)


def _layout_rule(problem: Matmul, side: OperandSide) -> Rule:
    row = row_of(problem, ROWS, 256)

    def why_not(tile_m: int, tile_n: int, tile_k: int, swizzle: int) -> str | None:
        extent = _extents(side, tile_m, tile_n)
        box = box_of(problem, side, extent, tile_k, swizzle)
        if isinstance(box, str):
            return box
        if extent * tile_k * problem.input_dtype.bytes % ALIGNMENT:
            return f"the tile of {side} has {extent} x {tile_k} elements, which is not a multiple of 1 KiB"
        answer = row.requirement(side, box, problem.input_dtype.bytes)
        return answer.reason if isinstance(answer, Refusal) else None

    return Rule.refusing(
        f"layout_{side}",
        why_not,
        f"the tile of {side} consists of whole boxes, whose layout tcgen05 can read",
        names={"swizzle": f"swizzle_{side}"},
    )


def pruning_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    split = tiling(problem)
    return (
        *split.covering_rules(parameters(problem)),
        *(_swizzle_rule(problem, side) for side in SIDES),
        split.stages_rule(),
        split.split_waves_rule(device, FULL_WAVES, _blocks_of),
        raster_rule(("tile_m", "tile_n"), (problem.m, problem.n)),
        _waves_rule(problem, device),
        split.narrow_rule(device, BALANCED_N),
        _few_stages_rule(problem, device),
        l2_evict_last_rule(problem, device),
        Rule(
            "one_buffer",
            lambda tile_n, sum_buffers, tiles_per_block: (
                (sum_buffers == 2) | ((tiles_per_block == 1) & (problem.scale != "block")) | (2 * tile_n > COLUMNS)
            ),
            "with {sum_buffers} tile in tensor memory, the tensor cores are idle during the epilogues of the "
            "{tiles_per_block} tiles of a block, although two tiles fit",
        ),
    )


def _waves_rule(problem: Matmul, device: Device) -> Rule:
    """Return the rule that requires ``tiles_per_block`` to let all persistent blocks finish at about the same time."""

    def why_not(tile_m: int, tile_n: int, tiles_per_block: int, stream_k: int) -> str | None:
        if tiles_per_block == 1:
            return None
        blocks = tile_m // ROWS
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        resident = device.sms_of_clusters(blocks) // blocks
        needed, of_block = tiles_that_end_together(tiles, resident)
        if tiles_per_block != of_block:
            return (
                f"a block or pair of blocks computes {tiles_per_block} tiles, but {resident} of them run at the same "
                f"time on {device.name}. They compute all {tiles} tiles if each computes {needed}"
            )
        return too_little_idle(tiles, resident) if stream_k else None

    return Rule.refusing("tiles_per_block_waves", why_not)


def _few_stages_rule(problem: Matmul, device: Device) -> Rule:
    room = device.shared_per_block

    def enough(
        stages: IntArray, tile_k: IntArray, stage_bytes: IntArray, store_bytes: IntArray
    ) -> npt.NDArray[np.bool_]:
        more = (stage_bytes + BARRIER_BYTES) * FEW_STAGES + store_bytes + 2 * BARRIER_BYTES + ADDRESS_BYTES
        return np.asarray((stages >= FEW_STAGES) | (ceil_div(problem.depth, tile_k) < FEW_STAGES) | (more > room))

    return Rule(
        "few_stages",
        enough,
        f"shared memory is sufficient for {FEW_STAGES} stages, which hide more load latency than {{stages}} stages",
    )


def _swizzle_rule(problem: Matmul, side: OperandSide) -> Rule:
    def why_not(tile_m: int, tile_n: int, tile_k: int, swizzle: int) -> str | None:
        return why_too_narrow(problem, side, _extents(side, tile_m, tile_n), tile_k, swizzle)

    return Rule.refusing(f"swizzle_{side}", why_not, names={"swizzle": f"swizzle_{side}"})
