"""Reduce a transpose to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule


def proxy(problem: Transpose, schedule: Schedule) -> Transpose:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders.

    Along rows and columns, the result has a full tile and the remainder, or two full tiles. If ``problem`` is a batch,
    the result has at least two matrices. If the batch is large enough, the result has more than ``tiles_per_block``
    tiles, so that there is a second block.
    """
    tile_m, tile_n = schedule.integer("tile_m"), schedule.integer("tile_n")
    rows = min(problem.rows, tile_m + (problem.rows % tile_m or tile_m))
    columns = min(problem.columns, tile_n + (problem.columns % tile_n or tile_n))
    tiles = -(-rows // tile_m) * -(-columns // tile_n)
    wanted = schedule.integer("tiles_per_block") + 1
    return replace(problem, rows=rows, columns=columns, batch=min(problem.batch, max(2, -(-wanted // tiles))))
