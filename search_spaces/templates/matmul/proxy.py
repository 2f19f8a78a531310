"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.decisions import tiling


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original (``Tiling.proxy``).

    What is kept: enough k-tiles of a split to reuse each pipeline stage, two tiles along the axis that a reduction
    removes, and two matrices of the batch.
    """
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    if problem.reduced_axis == -1 and n == schedule["tile_n"]:
        n = min(problem.n, 2 * n)
    if problem.reduced_axis == -2 and m == schedule["tile_m"]:
        m = min(problem.m, 2 * m)
    return replace(problem, m=m, n=n, k=k, batch=min(problem.batch, 2))
