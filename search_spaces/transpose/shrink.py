"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.schedule import Schedule
from search_spaces.transpose.problem import Transpose


def shrink(problem: Transpose, schedule: Schedule) -> Transpose:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    A full tile and the remainder stay along rows and columns, two full tiles where there is no remainder; of the batch,
    two, or as many as it takes for a block to reuse each of its stages and for a second block to have too few tiles.
    """
    sizes = {}
    for name in ("rows", "columns"):
        extent, tile = int(getattr(problem, name)), schedule.integer(f"tile_{name}")
        sizes[name] = min(extent, tile + (extent % tile or tile))
    tiles = 1
    for name, size in sizes.items():
        tiles *= -(-size // schedule.integer(f"tile_{name}"))
    wanted = schedule.integer("block_tiles") + 1
    return replace(problem, **sizes, batch=min(problem.batch, max(2, -(-wanted // tiles))))
