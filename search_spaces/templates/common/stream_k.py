"""Costs of stream-K (``autosched/common/stream_k.cuh``): the exchange of sums, and when stream-K saves time."""

from __future__ import annotations

LEAST_IDLE = 0.01  # share of the blocks' time that exchanging sums takes, and stream-K must at least save
# Round trips to L2 of a block that shares two tiles with its neighbours: for each tile a ticket, a flag, and the data
# that are stored before them or read after them.
TRIPS_TO_EXCHANGE = 8
BYTES_AT_A_TIME = 16  # bytes of partial sums that a thread reads at a time
# Round trips of a block with split-K: storing and counting its sums, and on average one to read the sums of a split,
# which the last block of a tile adds (``autosched/common/last_block.cuh``).
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

    Tickets and flags take TRIPS_TO_EXCHANGE round trips. Each load of BYTES_AT_A_TIME by a thread takes one more,
    because it has no registers for several loads at a time.

    H100, 2026-11-27: stream-K takes 20 us longer than it saves if a thread reads 32 times, 60 us if it reads 48 times.
    """
    return TRIPS_TO_EXCHANGE + exchanged / (BYTES_AT_A_TIME * threads)


def dealt_share(tiles: int, workers: int) -> float:
    """Return the share of tiles whose k is distributed: those of the last whole wave and the partial wave."""
    return (workers + tiles % workers) / tiles


def too_little_idle(tiles: int, workers: int) -> str | None:
    """Return the reason why distributing the k of ``tiles`` over ``workers`` saves too little time, or None."""
    idle = 1 - tiles / (-(-tiles // workers) * workers)
    if idle >= LEAST_IDLE:
        return None
    return (
        f"{tiles} tiles leave {workers} blocks idle for {idle:.1%} of their time, but exchanging sums "
        "with stream-K takes as long"
    )
