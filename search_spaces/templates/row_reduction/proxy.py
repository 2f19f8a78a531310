"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.space import chunk_length

CUT_STEPS = 3  # steps of the loop that stay: enough to use every buffer again


def proxy(problem: RowProblem, schedule: Schedule) -> RowProblem:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    Along the kept axis a full tile and the remainder stay, of several outer indices two; along the reduced axis up to
    three steps of each part, and the remainder.
    """
    integer = schedule.integer
    vector, split = integer("vector"), integer("split")
    step = integer("lanes") * integer("subgroups") * integer("unroll") * (vector if problem.along else 1)
    tile = 32 // integer("lanes") * integer("kept_subgroups") * integer("batch") * (1 if problem.along else vector)
    span = step * split
    length = problem.length % span + CUT_STEPS * span
    before = vector - 1 if schedule["peel"] == "yes" else 0  # places before a row
    while length < problem.length and (split - 1) * int(chunk_length(length + before, problem.along, split)) >= length:
        length += span  # parts are whole vectors, and each must have some
    length = min(length, problem.length)
    kept = min(problem.kept_extent, tile + problem.kept_extent % tile)
    if not isinstance(problem, Reduce):
        return replace(problem, rows=kept, columns=length)
    size = length if problem.reduction_size else 0
    if problem.along:
        # Rows of one reduction each: where those of the original hold several, the kernel sees no difference.
        return replace(problem, rows=kept, columns=length, reduction_size=size)
    return replace(problem, rows=length * min(problem.outer, 2), columns=kept, reduction_size=size)
