"""Stream-K as distributed by ``autosched/common/stream_k.cuh``: the cost of exchanging sums, and when it pays."""

from __future__ import annotations

LEAST_IDLE = 0.01  # share of all blocks' time that stream-K must save, as exchanging sums takes that long
# Round trips to L2 of a block that shares two tiles with its neighbours: for each a ticket and a flag, and the data
# stored before or read after them.
TRIPS_TO_EXCHANGE = 8
BYTES_AT_A_TIME = 16  # bytes of partial sums that a thread reads at a time
# Round trips of a block with split-K: until its sums are stored and counted, and one on average until those of a split
# arrive that the last block of a tile adds (``autosched/common/last_block.cuh``).
TRIPS_OF_SPLIT = 3
ADDITIONS = 1.5 / 4 / 32  # warp instructions per byte: a quarter of a store, of a load and of an addition


def exchanged_bytes(tile_m: int, tile_n: int) -> float:
    """Return the bytes of f32 sums that a block stores, and reads.

    A block has the end of one tile and the start of another. On average it stores the sums of one and reads those of
    the other.
    """
    return 4.0 * tile_m * tile_n


def trips_to_exchange(exchanged: float, threads: int) -> float:
    """Return the round trips to L2 of a block whose ``threads`` read ``exchanged`` bytes of sums.

    They are those of tickets and flags, and one per 16 bytes of a thread, as accumulators leave no registers for more.

    H100, 2026-11-27: stream-K takes 20 us longer than it saves if a thread reads 32 times, 60 us if it reads 48 times.
    """
    return TRIPS_TO_EXCHANGE + exchanged / (BYTES_AT_A_TIME * threads)


def dealt_share(tiles: int, workers: int) -> float:
    """Return the share of tiles whose k is distributed: those of the last whole wave and the partial wave after it."""
    return (workers + tiles % workers) / tiles


def too_little_idle(tiles: int, workers: int) -> str | None:
    """Return the reason why distributing the k of ``tiles`` to ``workers`` saves too little, or None."""
    idle = 1 - tiles / (-(-tiles // workers) * workers)
    if idle >= LEAST_IDLE:
        return None
    return (
        f"{tiles} tiles leave {workers} blocks idle for {idle:.1%} of their time, which stream-K would not save: "
        "exchanging sums takes as long"
    )
