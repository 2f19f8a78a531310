"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule


def proxy(problem: Transpose, schedule: Schedule) -> Transpose:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    What is kept: along rows and columns a full tile and the remainder, or two full tiles; of the batch two matrices, or
    as many as it takes for a block to reuse each of its stages and for a second block to have too few tiles.
    """
    tile_rows, tile_columns = schedule.integer("tile_rows"), schedule.integer("tile_columns")
    rows = min(problem.rows, tile_rows + (problem.rows % tile_rows or tile_rows))
    columns = min(problem.columns, tile_columns + (problem.columns % tile_columns or tile_columns))
    tiles = -(-rows // tile_rows) * -(-columns // tile_columns)
    wanted = schedule.integer("block_tiles") + 1
    return replace(problem, rows=rows, columns=columns, batch=min(problem.batch, max(2, -(-wanted // tiles))))
