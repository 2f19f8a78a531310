"""Reduce a matmul to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.decisions import tiling
from search_spaces.templates.matmul.proxy import with_partial_wave


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders (``Tiling.proxy``).

    The reduced problem keeps two matrices of a batch, and enough k-tiles per split to reuse a stage. With stream-K, it
    has full waves and a partial wave.
    """
    m, n, k = tiling(problem).proxy(schedule, lambda tiles: min(tiles, schedule.integer("stages") + 1))
    small = replace(problem, m=m, n=n, k=k * problem.input_dtype.values, batch=min(problem.batch, 2))
    return with_partial_wave(problem, schedule, small)
