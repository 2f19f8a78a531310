"""Reduce a matmul to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.persistent import streams
from search_spaces.templates.wgmma_matmul.problem import tiling

# Number of tiles per persistent block, if the problem has enough tiles. With this number, one of two alternating
# consumers computes a second tile.
TILES_PER_BLOCK = 3


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders (``Tiling.proxy``).

    The reduced problem has whole clusters, several tiles per persistent block, two matrices of the batch, and enough
    k-tiles per split to reuse each pipeline stage. With stream-K, it has full waves and a partial wave.
    """
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    batch = min(problem.batch, 2)
    sizes = {"m": m, "n": n}
    tile = {axis: schedule.integer(f"tile_{axis}") for axis in sizes}
    cluster = {axis: schedule.integer(f"cluster_{axis}") for axis in sizes}
    most = {axis: -(-int(getattr(problem, axis)) // tile[axis]) for axis in sizes}
    counts = {
        axis: min(most[axis], math.ceil(math.ceil(size / tile[axis]) / cluster[axis]) * cluster[axis])
        for axis, size in sizes.items()
    }
    several = min(schedule.integer("tiles_per_block"), TILES_PER_BLOCK)
    blocks = cluster["m"] * cluster["n"]
    if schedule.integer("stream_k"):
        counts["m"], counts["n"] = min(
            (
                (down, across)
                for down, across in product(*(range(counts[a], most[a] + 1, cluster[a]) for a in ("m", "n")))
                if streams(batch * down * across // blocks, several)
            ),
            key=lambda shape: shape[0] * shape[1],
            default=(counts["m"], counts["n"]),
        )
    elif several > 1:
        for axis, other in (("n", "m"), ("m", "n")):
            needed = -(-several * blocks // (batch * counts[other]))
            counts[axis] = min(most[axis], max(counts[axis], -(-needed // cluster[axis]) * cluster[axis]))
    cut = {
        axis: min(extent, (counts[axis] - 1) * tile[axis] + (extent % tile[axis] or tile[axis]))
        for axis, extent in (("m", problem.m), ("n", problem.n))
    }
    return replace(problem, m=cut["m"], n=cut["n"], k=k, batch=batch)
