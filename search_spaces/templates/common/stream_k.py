"""Costs and benefits of stream-K (``autosched/common/stream_k.cuh``): exchanges of sums, and filled partial waves."""

from __future__ import annotations

# stream-K must save at least this fraction of the blocks' time, because exchanging sums takes about this fraction
LEAST_IDLE = 0.01
# Estimated round trips to L2 of a block that shares two tiles with its neighbours. Each of these tiles needs a ticket,
# a flag, and either the stores before the flag or the loads after the flag.
TRIPS_TO_EXCHANGE = 8
BYTES_AT_A_TIME = 16  # bytes of partial sums that a thread reads with one load instruction
# Number of L2 round trips that a block makes with split-K: one to store its sums, one to increment the counter, and on
# average one to read sums. Only the last block of a tile reads sums, but it reads the sums of all splits
# (``autosched/common/last_block.cuh``).
TRIPS_OF_SPLIT = 3
# Warp instructions per byte of exchanged sums. For each 4-byte sum, a thread executes an addition, a quarter of a store
# and a quarter of a load.
ADDITIONS = 1.5 / 4 / 32


def exchanged_bytes(tile_m: int, tile_n: int) -> float:
    """Return the bytes of f32 sums that a block stores, which equal the bytes that it reads.

    A block computes the end of one tile and the start of another tile. On average, it stores its sums of one of these
    tiles. For the other tile, it reads the sums that another block stored.
    """
    return 4.0 * tile_m * tile_n


def trips_to_exchange(exchanged: float, threads: int) -> float:
    """Return the number of L2 round trips of a block with ``threads`` threads that reads ``exchanged`` bytes of sums.

    Tickets and flags take TRIPS_TO_EXCHANGE round trips. Each load of BYTES_AT_A_TIME by a thread takes one more round
    trip, because a thread has no registers for several loads at a time.

    Measured on an H100, 2026-11-27: if a thread reads 32 times, the exchange takes 20 us more than stream-K saves; if a
    thread reads 48 times, 60 us more.
    """
    return TRIPS_TO_EXCHANGE + exchanged / (BYTES_AT_A_TIME * threads)


def dealt_share(tiles: int, workers: int) -> float:
    """Return the fraction of tiles with distributed k ranges: the tiles of the last full wave and the partial wave."""
    return (workers + tiles % workers) / tiles


def workers_text(workers: int, cluster: int) -> str:
    """Return the number of workers in words: blocks, or clusters of ``cluster`` blocks."""
    return f"{workers} blocks" if cluster == 1 else f"{workers} clusters of {cluster} blocks"


def why_no_partial_wave(tiles: int, workers: int, cluster: int = 1) -> str | None:
    """Return the reason why ``workers`` of ``cluster`` blocks have no partial wave after full waves, or None."""
    if tiles > workers and tiles % workers:
        return None
    return (
        f"{tiles} tiles divided among {workers_text(workers, cluster)} leave no partial wave after full waves, so "
        "stream-K has no k-tiles to distribute"
    )


def too_little_idle(tiles: int, workers: int) -> str | None:
    """Return the reason why distributing the k ranges of ``tiles`` over ``workers`` saves too little time, or None."""
    idle = 1 - tiles / (-(-tiles // workers) * workers)
    if idle >= LEAST_IDLE:
        return None
    return (
        f"{tiles} tiles leave {workers} blocks idle for {idle:.1%} of their time, and exchanging sums "
        "with stream-K would take as long"
    )
