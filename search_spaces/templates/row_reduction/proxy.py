"""Shrink a row reduction to a problem that is small enough to emulate with the same schedule."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.lowering import lowering_config
from search_spaces.templates.row_reduction.space import chunk_length, positions_before

CUT_STEPS = 3  # steps of the loop in the reduced problem, which are enough to reuse every buffer


def proxy(problem: RowProblem, schedule: Schedule) -> RowProblem:
    """Return ``problem`` shrunk to a few tiles of ``schedule`` with the same remainders.

    Along the parallel axis, the result has a full tile and the remainder. It has at most two outer indices. Along the
    reduced axis, it has the remainder and three steps per block, or more if the last block would be without work.
    """
    tile, step = lowering_config(problem, schedule).tile()
    split, contiguous = schedule.integer("split_k"), problem.reduces_contiguous
    period = step * split
    length = problem.length % period + CUT_STEPS * period
    before = int(positions_before(schedule.integer("vector_x"), schedule["peel"] == "yes"))
    while length < problem.length and (split - 1) * int(chunk_length(length + before, contiguous, split)) >= length:
        length += period  # lengthen the row until the last block's part is not empty; parts consist of whole vectors
    length = min(length, problem.length)
    extent = min(problem.parallel_extent, tile + problem.parallel_extent % tile)
    if not isinstance(problem, Reduce):
        return replace(problem, rows=extent, columns=length)
    size = length if problem.reduction_size else 0
    if contiguous:
        # Each row has one reduction, even if rows of the original problem have several reductions. The kernel computes
        # both kinds of problems with the same code.
        return replace(problem, rows=extent, columns=length, reduction_size=size)
    return replace(problem, rows=length * min(problem.outer, 2), columns=extent, reduction_size=size)
