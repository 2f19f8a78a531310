"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.space import tiling


def proxy(problem: Matvec | Matmul, schedule: Schedule) -> Matvec | Matmul:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original (``Tiling.proxy``).

    Each split keeps two rounds of the unrolled loop and its leftover steps.
    """
    unroll = schedule.integer("k_unroll")
    m, n, k = tiling(as_matvec(problem)).proxy(schedule, lambda steps: min(steps, 2 * unroll + steps % unroll))
    return replace(problem, m=m, n=n, k=k)
