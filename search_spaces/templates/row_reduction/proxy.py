"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.lowering import lowering_config
from search_spaces.templates.row_reduction.space import chunk_length, places_before

CUT_STEPS = 3  # steps of the loop that stay: enough to use every buffer again


def proxy(problem: RowProblem, schedule: Schedule) -> RowProblem:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    What is kept: along the parallel axis a full tile and the remainder, two outer indices where there are several,
    along the reduced axis up to three steps of each part and the remainder.
    """
    tile, step = lowering_config(problem, schedule).tile()
    split, contiguous = schedule.integer("split_k"), problem.reduces_contiguous
    period = step * split
    length = problem.length % period + CUT_STEPS * period
    before = int(places_before(schedule.integer("vector_x"), schedule["peel"] == "yes"))
    while length < problem.length and (split - 1) * int(chunk_length(length + before, contiguous, split)) >= length:
        length += period  # parts are whole vectors, and each must have some
    length = min(length, problem.length)
    extent = min(problem.parallel_extent, tile + problem.parallel_extent % tile)
    if not isinstance(problem, Reduce):
        return replace(problem, rows=extent, columns=length)
    size = length if problem.reduction_size else 0
    if contiguous:
        # Rows of one reduction each: where those of the original hold several, the kernel sees no difference.
        return replace(problem, rows=extent, columns=length, reduction_size=size)
    return replace(problem, rows=length * min(problem.outer, 2), columns=extent, reduction_size=size)
