"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.wgmma_matmul.problem import tiling

TILES_OF_BLOCK = 3  # of a block that computes several, where the problem has as many: with both consumers' second turns


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original (``Tiling.proxy``): enough
    k-tiles of a split to reuse each pipeline stage, whole clusters, several tiles of a block where it computes several,
    and two matrices of the batch."""
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    batch = min(problem.batch, 2)
    clusters = {axis: schedule.integer(f"cluster_{axis}") for axis in "mn"}
    several = min(schedule.integer("tiles_of_block"), TILES_OF_BLOCK)
    sizes = {"m": m, "n": n}
    tiles = {}
    for axis, size in sizes.items():
        tile, extent = schedule.integer(f"tile_{axis}"), int(getattr(problem, axis))
        have, whole = -(-size // tile), clusters[axis]
        tiles[axis] = (min(-(-extent // tile), -(-have // whole) * whole), tile, extent)
    if several > 1:
        for axis in ("n", "m"):
            count, tile, extent = tiles[axis]
            other = tiles["m" if axis == "n" else "n"][0]
            needed = -(-several * clusters["m"] * clusters["n"] // (batch * other))
            count = min(-(-extent // tile), max(count, -(-needed // clusters[axis]) * clusters[axis]))
            tiles[axis] = (count, tile, extent)
    cut = {
        axis: min(extent, (count - 1) * tile + (extent % tile or tile)) for axis, (count, tile, extent) in tiles.items()
    }
    return replace(problem, m=cut["m"], n=cut["n"], k=k, batch=batch)
