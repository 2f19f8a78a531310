"""Persistent workers (blocks or clusters) and stream-K: the number of launched workers, and when stream-K saves time.

With ``stream_k`` the k-tiles of the last whole wave and of the partial wave after it are distributed evenly, in the
order of the tiles ("data-parallel + two-tile Stream-K", Osama, Merrill, Cecka, Garland and Owens, PPoPP 2023, section
5.2). Every worker gets those of one to two tiles, so that at most two workers share a tile.
"""

from __future__ import annotations

from bisect import bisect_left

TILES_PER_BLOCK = (*range(1, 11), 12, 14, 16, 20, 24, 28, 32, 48, 64)


def workers_of_launch(resident: int, tiles: int, tiles_per_block: int) -> int:
    """Return the number of stream-K workers for ``tiles``: all resident ones, or fewer for a small problem.

    With fewer workers, a small problem (in the emulator) still has a partial wave, and whole waves if workers have
    three tiles or more.
    """
    return max(min(resident, (tiles - 1) // (1 if tiles_per_block < 3 else 2)), 1)


def streams(tiles: int, tiles_per_block: int) -> bool:
    """Return True if stream-K can distribute ``tiles``, fewer than one wave, so that each worker computes several."""
    workers = workers_of_launch(tiles, tiles, tiles_per_block)
    return workers > 1 and tiles % workers != 0


def why_no_stream_k(tiles: int, resident: int, tiles_per_block: int, cluster: int) -> str | None:
    """Return the reason why stream-K cannot distribute tiles, or None if it can.

    Args:
        tiles: Tiles of the launch.
        resident: Resident workers.
        tiles_per_block: Largest number of tiles of one worker.
        cluster: Blocks per worker.
    """
    if tiles_per_block == 1:
        return "stream-K distributes the k of tiles over blocks that compute several tiles, but each block computes one"
    launched = workers_of_launch(resident, tiles, tiles_per_block)
    named = f"{launched} blocks" if cluster == 1 else f"{launched} clusters of {cluster} blocks"
    if tiles < launched or tiles % launched == 0:
        return f"{tiles} tiles for {named} have no partial wave after whole waves, whose k stream-K would distribute"
    if tiles > launched * tiles_per_block:
        return f"{tiles} tiles are more than {tiles_per_block} for each of the {named} that run at a time"
    return None


def tiles_that_end_together(tiles: int, resident: int) -> tuple[int, int]:
    """Return the number of ``tiles`` that each of ``resident`` workers must compute so that all finish together.

    The second number is the value of TILES_PER_BLOCK for that.
    """
    needed = -(-tiles // resident)
    return needed, TILES_PER_BLOCK[min(bisect_left(TILES_PER_BLOCK, needed), len(TILES_PER_BLOCK) - 1)]
