"""Reduce a matmul to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.decisions import tiling
from search_spaces.templates.matmul.stream_k import streams

# Smallest number of tiles with which two blocks can use stream-K. Each block computes one tile alone, and both blocks
# share the k ranges of the other three tiles.
LEAST_TILES = 5
MOST_TILES = 8  # largest number of tiles along m or n, and of matrices in the batch


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders (``Tiling.proxy``).

    The reduced problem keeps two matrices of a batch, and enough k-tiles per split to reuse a pipeline stage. If the
    epilogue reduces the rows or columns of the output, the reduced problem has at least two tiles along the reduced
    axis. With stream-K, the reduced problem has full waves and a partial wave.
    """
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    if problem.reduced_axis == -1 and n == schedule["tile_n"]:
        n = min(problem.n, 2 * n)
    if problem.reduced_axis == -2 and m == schedule["tile_m"]:
        m = min(problem.m, 2 * m)
    small = replace(problem, m=m, n=n, k=k * problem.input_dtype.values, batch=min(problem.batch, 2))
    return with_partial_wave(problem, schedule, small)


def with_partial_wave(problem: Matmul, schedule: Schedule, small: Matmul) -> Matmul:
    """Return ``small``, or with stream-K the smallest problem to which stream-K applies.

    With stream-K, the returned problem has at least as many tiles as ``small``. Some of its tiles are distributed among
    blocks, and some are not.
    """
    if not schedule.values.get("stream_k"):  # schedules of older versions do not have this parameter
        return small
    tile = {"m": schedule.integer("tile_m"), "n": schedule.integer("tile_n"), "batch": 1}
    ranges = (
        range(-(-getattr(small, axis) // size), min(-(-getattr(problem, axis) // size), MOST_TILES) + 1)
        for axis, size in tile.items()
    )
    distributed = (tiles for tiles in product(*ranges) if math.prod(tiles) >= LEAST_TILES and streams(math.prod(tiles)))
    tiles_m, tiles_n, batch = min(distributed, key=math.prod)

    def cut(extent: int, tiles: int, size: int) -> int:
        return min(extent, (tiles - 1) * size + (extent % size or size))

    return replace(small, m=cut(problem.m, tiles_m, tile["m"]), n=cut(problem.n, tiles_n, tile["n"]), batch=batch)
