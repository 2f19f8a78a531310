"""Stream-K of mma.sync matmuls: the number of launched blocks, and the rules of legality and pruning.

The launch has as many blocks as can be resident at a time. Each block computes whole tiles, and an equal share of the
k-tiles of the last full wave and the partial wave after it (``autosched/common/stream_k.cuh``).
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.common.stream_k import too_little_idle, why_no_partial_wave

ACCUMULATING = 2  # registers per accumulator: fragments and addresses need about as many registers as accumulators do
KEPT_BYTES = 48  # shared-memory bytes of a block's state: current part of a tile, next part, and position


def stream_k(problem: Matmul) -> Parameter:
    """Return the parameter ``stream_k``."""
    return ordinal(
        "stream_k",
        (0, 1) if problem.reduced_axis is None else (0,),
        "1: the k ranges of the last tiles are distributed among all blocks, so that all blocks finish together",
        before=0,
    )


def workers(resident: IntArray | int, tiles: IntArray | int) -> IntArray:
    """Return the number of stream-K blocks for ``tiles``.

    This is ``resident``, or half of the number of tiles if the tiles do not fill a wave. So even a small problem, such
    as a proxy, has full waves and a partial wave.
    """
    few = np.maximum((np.asarray(tiles) - 1) // 2, 1)
    count: IntArray = np.where(np.asarray(tiles) > resident, resident, few)
    return count


def streams(tiles: int) -> bool:
    """Return True if stream-K can distribute ``tiles`` tiles that do not fill a wave.

    This is the case if the last wave of the reduced launch (``workers``) is partial.
    """
    return tiles > 1 and tiles % int(workers(tiles, tiles)) != 0


def launched_blocks(device: Device) -> Attribute:
    """Return the number of launched blocks: all resident blocks with stream-K, else one per tile and split."""

    def blocks_of_launch(blocks: IntArray, min_blocks: IntArray, stream_k: IntArray) -> IntArray:
        launched: IntArray = np.where(stream_k > 0, workers(device.sm_count * min_blocks, blocks), blocks)
        return launched

    return Attribute("launched_blocks", blocks_of_launch, "blocks of the launch")


def early_copies() -> Attribute:
    """Return the attribute that is 1 if stream-K copies a block's next k-tiles while it stores the current results.

    Such early copies need no additional shared memory, because results use the last stage, which these copies do not
    use.
    """
    return Attribute(
        "early_copies",
        lambda stream_k, stages, epilogue, epilogue_bytes, stage_bytes: (
            (stream_k > 0) & (stages > 1) & ((epilogue == "registers") | (epilogue_bytes <= stage_bytes))
        ).astype(np.int64),
        "1 if the first k-tiles of the next part are copied while results are stored",
    )


def stream_k_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude stream-K if it is combined with split-K, or has no k-tiles to distribute."""

    def why_not(tile_m: int, tile_n: int, min_blocks: int, stream_k: int) -> str | None:
        if stream_k == 0:
            return None
        tiles = _tiles(problem, tile_m, tile_n)
        return why_no_partial_wave(tiles, int(workers(device.sm_count * min_blocks, tiles)))

    return (
        Rule(
            "stream_k_split",
            lambda split_k, stream_k: np.equal(stream_k, 0) | np.equal(split_k, 1),
            "split_k {split_k} and stream-K both divide the k range of tiles: use only one of them",
        ),
        Rule.refusing("stream_k_waves", why_not, "stream-K distributes the k ranges of the last tiles"),
        Rule(
            "stream_k_tiles",
            lambda tile_k, stream_k: np.equal(stream_k, 0) | (tile_k < problem.depth),
            f"stream-K distributes k-tiles, but k = {problem.depth} has one k-tile of {{tile_k}}",
        ),
    )


def exchanged_rule() -> Rule:
    """Return the rule that stream-K requires a known layout of accumulators, because blocks exchange accumulators."""
    return Rule(
        "stream_k_intrinsic",
        each(lambda intrinsic, stream_k: stream_k == 0 or intrinsics.intrinsic(intrinsic).unit == "mma"),
        "stream-K exchanges accumulators of mma.sync, not accumulators of {intrinsic}",
    )


def stream_k_pruning(problem: Matmul, device: Device, most: int) -> tuple[Rule, ...]:
    """Return the rules for stream-K: there is at least one full wave of tiles, and as many blocks per SM as fit.

    If tiles do not fill a wave, ``split_k`` has the same effect as stream-K, and needs no loop over tiles. Stream-K
    launches ``min_blocks`` blocks per SM. Without stream-K, as many blocks run on an SM as fit. ``most`` is the largest
    value of ``min_blocks``.
    """
    room = device.registers_per_sm // ACCUMULATING

    def too_little(tile_m: int, tile_n: int, min_blocks: int, stream_k: int) -> str | None:
        if stream_k == 0:
            return None
        tiles, resident = _tiles(problem, tile_m, tile_n), device.sm_count * min_blocks
        if tiles <= resident:
            return (
                f"{tiles} tiles do not fill the {resident} resident blocks: use split_k, which divides the k range of "
                "each tile"
            )
        return too_little_idle(tiles, resident)

    def too_few(tile_m: int, tile_n: int, tile_k: int, stages: int, min_blocks: int, stream_k: int) -> str | None:
        staged = stages * (tile_m + tile_n) * tile_k * problem.input_dtype.bytes
        fit = min(room // (tile_m * tile_n), device.shared_per_sm // staged, most)
        if stream_k == 0 or min_blocks >= fit:
            return None
        return (
            f"stream-K launches {min_blocks} blocks per SM, but {fit} blocks with {tile_m}x{tile_n}x{tile_k} tiles and "
            f"{stages} stages fit on an SM, and are faster without stream-K because they hide more latency"
        )

    return (
        Rule.refusing("stream_k_idle", too_little, "stream-K saves more than it costs"),
        Rule.refusing("stream_k_resident", too_few, "stream-K runs as many blocks per SM as would fit without it"),
    )


def _tiles(problem: Matmul, tile_m: int, tile_n: int) -> int:
    return problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
