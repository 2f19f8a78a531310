"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    Along m and n a full tile and the remainder stay (two full tiles along n where neither leaves one, so that blocks
    still have neighbours; two along the axis that a reduction removes in any case); along k, in every split, enough
    k-tiles to use each pipeline stage again, a shorter last split and a partial last tile where the original has them;
    of the batch, two.
    """
    tile_m, tile_n, tile_k = (schedule.integer(f"tile_{axis}") for axis in "mnk")
    m = min(problem.m, tile_m + problem.m % tile_m)
    n = min(problem.n, tile_n + problem.n % tile_n)
    if (m == tile_m and n == tile_n) or (problem.reduced_axis == -1 and n == tile_n):
        n = min(problem.n, 2 * tile_n)
    if problem.reduced_axis == -2 and m == tile_m:
        m = min(problem.m, 2 * tile_m)
    tiles_k, splits = -(-problem.k // tile_k), schedule.integer("split_k")
    tiles_of_split = -(-tiles_k // splits)
    missing = tiles_of_split * splits - tiles_k
    kept = min(tiles_of_split, schedule.integer("stages") + 1)
    tiles = kept * splits - min(missing, kept - 1)
    last = problem.k % tile_k or tile_k
    return replace(problem, m=m, n=n, k=(tiles - 1) * tile_k + last, batch=min(problem.batch, 2))
