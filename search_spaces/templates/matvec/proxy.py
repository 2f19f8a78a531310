"""Reduce a matvec to a problem small enough to emulate with the same schedule."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.space import most_shift, row_classes, tiling, widest_access


def proxy(problem: Matvec | Matmul, schedule: Schedule) -> Matvec | Matmul:
    """Return ``problem`` reduced to a few tiles of ``schedule`` with the same remainders (``Tiling.proxy``).

    Each split has two iterations of the unrolled loop and the remaining steps. If rows are not aligned, up to two steps
    at the ends of a row are outside of the loop. The reduced problem then also has these steps, and a row of each
    alignment class. If steps are shorter than a load, k is not reduced, because the alignment would change.
    """
    matvec, unroll, classes = as_matvec(problem), schedule.integer("unroll"), row_classes(as_matvec(problem))
    shift = most_shift(matvec)
    rounds = 2 + (-(-2 // unroll) if shift else 0)
    m, rows, positions = tiling(matvec).proxy(schedule, lambda steps: min(steps, rounds * unroll + steps % unroll))
    n = max(classes * (rows - 1) + (matvec.n - 1) % classes + 1, min(matvec.n, classes))
    k = positions - shift
    if k < 1 or (matvec.k - k) % widest_access(matvec):
        k = matvec.k
    return replace(problem, m=m, n=n, k=k)
