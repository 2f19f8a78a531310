"""Number of persistent workers (blocks or clusters) of a launch, and conditions under which stream-K is possible.

With ``stream_k``, the k-tiles of the last whole wave and of the partial wave after it are distributed evenly among the
workers, in the order of the tiles ("data-parallel + two-tile Stream-K", Osama, Merrill, Cecka, Garland and Owens, PPoPP
2023, section 5.2). Every worker receives at least as many k-tiles as one tile has, and less than twice as many.
Therefore at most two workers share a tile.
"""

from __future__ import annotations

from bisect import bisect_left

from search_spaces.templates.common.stream_k import why_no_partial_wave, workers_text

TILES_PER_BLOCK = (*range(1, 11), 12, 14, 16, 20, 24, 28, 32, 48, 64)


def workers_of_launch(resident: int, tiles: int, tiles_per_block: int) -> int:
    """Return the number of stream-K workers (blocks or clusters): all resident ones, or fewer for few ``tiles``.

    The emulator runs problems with few tiles. With fewer workers, even these problems have a partial wave. If
    ``tiles_per_block`` is at least 3, they also have full waves.
    """
    return max(min(resident, (tiles - 1) // (1 if tiles_per_block < 3 else 2)), 1)


def streams(tiles: int, tiles_per_block: int) -> bool:
    """Return True if stream-K has work to distribute even on a GPU that has room for one worker per tile."""
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
        return "stream-K needs blocks that compute several tiles, but each block computes one"
    launched = workers_of_launch(resident, tiles, tiles_per_block)
    if (why := why_no_partial_wave(tiles, launched, cluster)) is not None:
        return why
    if tiles > launched * tiles_per_block:
        return (
            f"{tiles} tiles are too many: at most {tiles_per_block} are allowed for each of the "
            f"{workers_text(launched, cluster)} that run at the same time"
        )
    return None


def tiles_that_end_together(tiles: int, resident: int) -> tuple[int, int]:
    """Return two numbers of tiles per worker with which all ``resident`` workers finish at about the same time.

    The first number is ``tiles`` divided by workers, rounded up. The second number is the smallest value in
    TILES_PER_BLOCK that is at least the first number, or the largest value if all are smaller.
    """
    needed = -(-tiles // resident)
    return needed, TILES_PER_BLOCK[min(bisect_left(TILES_PER_BLOCK, needed), len(TILES_PER_BLOCK) - 1)]
