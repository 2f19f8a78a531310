"""The same schedule on a problem small enough to emulate."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.schedule import Schedule


def proxy(problem: Matvec, schedule: Schedule) -> Matvec:
    """``problem`` cut to a few tiles of ``schedule``, with the remainders of the original.

    Along m and n a full tile and the remainder stay (two full tiles along n where neither leaves one, so that blocks
    still have neighbours); along k, in every split, two rounds of the unrolled loop and the steps that it leaves over,
    a shorter last split and a partial last step where the original has them.
    """
    tile_m, tile_n = schedule.integer("workgroup_m"), schedule.integer("workgroup_n")
    step, splits, unroll = (schedule.integer(name) for name in ("partial_reduction", "split_k", "k_unroll"))
    m = min(problem.m, tile_m + problem.m % tile_m)
    n = min(problem.n, tile_n + problem.n % tile_n)
    if m == tile_m and n == tile_n:
        n = min(problem.n, 2 * tile_n)
    steps = -(-problem.k // step)
    of_split = -(-steps // splits)
    missing = of_split * splits - steps
    kept = min(of_split, 2 * unroll + of_split % unroll)
    kept_steps = kept * splits - min(missing, kept - 1)
    last = problem.k % step or step
    return replace(problem, m=m, n=n, k=(kept_steps - 1) * step + last)
