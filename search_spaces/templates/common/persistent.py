"""Workers, blocks or clusters of them, that compute several tiles of out each, and stream-K: how many are launched, and
when that is worth it.

With ``stream_k`` the tiles of the last whole wave and those of the partial one behind it have their k-tiles dealt out
evenly, in the order of the tiles ("data-parallel + two-tile Stream-K", Osama, Merrill, Cecka, Garland and Owens, PPoPP
2023, section 5.2). Every worker gets those of one to two tiles, so that at most two workers share a tile.
"""

from __future__ import annotations

from bisect import bisect_left

TILES_PER_BLOCK = (*range(1, 11), 12, 14, 16, 20, 24, 28, 32, 48, 64)


def workers_of_launch(resident: int, tiles: int, tiles_per_block: int) -> int:
    """Workers that stream-K deals ``tiles`` out to: as many as run at a time, unless a small problem has no tiles for
    so many. There is a partial wave then, and behind it a whole one where workers have three tiles or more.
    """
    return max(min(resident, (tiles - 1) // (1 if tiles_per_block < 3 else 2)), 1)


def streams(tiles: int, tiles_per_block: int) -> bool:
    """Whether stream-K can deal out ``tiles``, fewer than run at a time, of workers that compute several each."""
    workers = workers_of_launch(tiles, tiles, tiles_per_block)
    return workers > 1 and tiles % workers != 0


def why_no_stream_k(tiles: int, resident: int, tiles_per_block: int, cluster: int) -> str | None:
    """Say why stream-K cannot deal out tiles; None where it can.

    Args:
        tiles: Of the launch.
        resident: Workers that run at a time.
        tiles_per_block: The most of one.
        cluster: Blocks of a worker.
    """
    if tiles_per_block == 1:
        return "stream-K deals out the k of tiles to blocks that compute several, but each computes one"
    launched = workers_of_launch(resident, tiles, tiles_per_block)
    named = f"{launched} blocks" if cluster == 1 else f"{launched} clusters of {cluster} blocks"
    if tiles < launched or tiles % launched == 0:
        return f"{tiles} tiles for {named} leave no partial wave behind whole ones, whose k stream-K would deal out"
    if tiles > launched * tiles_per_block:
        return f"{tiles} tiles are more than {tiles_per_block} for each of the {named} that run at a time"
    return None


def tiles_that_end_together(tiles: int, resident: int) -> tuple[int, int]:
    """How many of ``tiles`` each of ``resident`` workers has to compute so that none waits for another, and the number
    of TILES_PER_BLOCK for that.
    """
    needed = -(-tiles // resident)
    return needed, TILES_PER_BLOCK[min(bisect_left(TILES_PER_BLOCK, needed), len(TILES_PER_BLOCK) - 1)]
