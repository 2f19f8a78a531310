"""Stream-K, as ``autosched/common/stream_k.cuh`` deals out k-tiles: what the exchange of sums costs, when it pays."""

from __future__ import annotations

LEAST_IDLE = 0.01  # of the time of all blocks, which stream-K must save: exchanging sums takes as long
# Ways to L2 and back of a block that shares two tiles with its neighbours: for each a ticket and a flag, and what is
# stored before or read behind them.
TRIPS_TO_EXCHANGE = 8
BYTES_AT_A_TIME = 16  # of other sums that a thread reads
# Of a block with a split of k: until its sums are stored and counted, and on average once until those of a split arrive
# that the last block of a tile adds (``autosched/common/last_block.cuh``).
TRIPS_OF_SPLIT = 3
ADDITIONS = 1.5 / 4 / 32  # instructions for a byte: a quarter of a store and of a load, and an addition, of a warp


def exchanged_bytes(tile_m: int, tile_n: int) -> float:
    """Return what a block stores, and reads, of sums in f32: it has the end of one tile and the start of another, and
    on average stores those of one and reads those of the other.
    """
    return 4.0 * tile_m * tile_n


def trips_to_exchange(exchanged: float, threads: int) -> float:
    """Return the ways to L2 and back of a block, so many threads of which read ``exchanged`` bytes of sums: those of
    tickets and flags, and one for each 16 bytes of a thread, as accumulators leave it no registers for more at a time.

    H100, 2026-11-27: stream-K takes 20 us longer than it saves where a thread reads 32 times, 60 us where it does 48.
    """
    return TRIPS_TO_EXCHANGE + exchanged / (BYTES_AT_A_TIME * threads)


def dealt_share(tiles: int, workers: int) -> float:
    """Return the share of the tiles whose k is dealt out: of the last whole wave, and of the partial one behind it."""
    return (workers + tiles % workers) / tiles


def too_little_idle(tiles: int, workers: int) -> str | None:
    """Why dealing out the k of ``tiles`` to ``workers`` saves too little."""
    idle = 1 - tiles / (-(-tiles // workers) * workers)
    if idle >= LEAST_IDLE:
        return None
    return (
        f"{tiles} tiles leave {workers} blocks idle for {idle:.1%} of their time, which stream-K would not save: "
        "exchanging sums takes as long"
    )
