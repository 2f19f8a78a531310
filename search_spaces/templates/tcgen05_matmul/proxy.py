"""Reduce a matmul to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.persistent import streams
from search_spaces.templates.tcgen05_matmul.problem import tiling

# Number of tiles per persistent block, so that the block uses both buffers of sums, and then the first buffer again.
TILES_PER_BLOCK = 3


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders (``Tiling.proxy``).

    The reduced problem has enough k-tiles to reuse each stage, several tiles per persistent block, and two matrices of
    the batch. With stream-K, it has full waves and a partial wave.
    """
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    batch = min(problem.batch, 2)
    sizes = {"m": m, "n": n}
    tile = {axis: schedule.integer(f"tile_{axis}") for axis in sizes}
    most = {axis: -(-int(getattr(problem, axis)) // tile[axis]) for axis in sizes}
    counts = {axis: -(-size // tile[axis]) for axis, size in sizes.items()}
    several = min(schedule.integer("tiles_per_block"), TILES_PER_BLOCK)
    # enough tiles to also test a launch with fewer blocks than planned
    if several > 1 and not schedule.integer("stream_k"):
        several = max(several, schedule.integer("sum_buffers") + 1)
    if schedule.integer("stream_k"):
        counts["m"], counts["n"] = min(
            (
                (down, across)
                for down, across in product(*(range(counts[axis], most[axis] + 1) for axis in ("m", "n")))
                if streams(batch * down * across, several)
            ),
            key=lambda shape: shape[0] * shape[1],
            default=(counts["m"], counts["n"]),
        )
    else:
        for axis, other in (("n", "m"), ("m", "n")):
            counts[axis] = min(most[axis], max(counts[axis], -(-several // (batch * counts[other]))))
    cut = {
        axis: min(extent, (counts[axis] - 1) * tile[axis] + (extent % tile[axis] or tile[axis]))
        for axis, extent in (("m", problem.m), ("n", problem.n))
    }
    return replace(problem, m=cut["m"], n=cut["n"], k=k * problem.input_dtype.values, batch=batch)
