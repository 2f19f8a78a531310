"""Steps from random schedules to neighbours with smaller estimates; nothing is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.samplers.base import spread_out
from cost_models.estimates import Estimates
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

STARTS = 8  # from each of which a descent takes some 150 to 300 guesses
_DISTANCE = 6  # parameters in which they differ where possible: the best of a sample are often much the same
_NEIGHBOURS = 256  # looked at in a step
_STEPS = 32
_STRATA = 2  # whole shares of a space whose best a sample finds; of more, each gets as many schedules as one of these
TIE = 1e-3  # guesses of times that differ by less are the same: no model tells them apart

Rank = tuple[int, int, int, float]


def starting_points(space: SearchSpace, samples: int, seed: int) -> list[Schedule]:
    """Return ``samples`` random schedules, more of a space of many strata: another template must not thin out those of
    the best one."""
    return space.sample(max(samples, math.ceil(samples * round(sum(s.share for s in space.strata)) / _STRATA)), seed)


def descended(space: SearchSpace, estimates: Estimates, starts: Sequence[Schedule]) -> list[Schedule]:
    """Follow steepest descents of the estimated time.

    Args:
        space: Schedules and their neighbours.
        estimates: Estimates with times.
        starts: Schedules to start from; the best STARTS that differ enough are used.

    Returns:
        Different schedules at which descents end, the smallest estimate first; none if all ``starts`` are expected to
        fail.
    """
    guesses = estimates.log_seconds(starts)
    order = [i for i in np.argsort(guesses, kind="stable").tolist() if np.isfinite(guesses[i])]
    rank = ranking(space)
    rank_of = {starts[i]: rank(starts[i], float(guesses[i])) for i in order}
    ends: dict[Schedule, Rank] = {}
    for start in spread_out(list(rank_of), STARTS, _DISTANCE):
        here = start
        best = rank_of[start]
        for _ in range(_STEPS):
            near = space.neighbours(here, _NEIGHBOURS)
            found = estimates.log_seconds(near)
            ranks = {n: rank(n, float(g)) for n, g in zip(near, found, strict=True) if g < math.log1p(TIE) + best[-1]}
            if not ranks or not min(ranks.values()) < best:
                break
            here = min(ranks, key=lambda schedule: ranks[schedule])
            best = ranks[here]
        ends[here] = best
    return sorted(ends, key=lambda schedule: ends[schedule])


def ranking(space: SearchSpace) -> Callable[[Schedule, float], Rank]:
    """How a schedule with a guess (log seconds) ranks, the smallest first: by its guess, where several are the same
    within TIE by how few parameters are not at their defaults, then by how deep its pipeline is."""
    plain = {(t, p.name): p.default for t, m in space.members.items() for p in m.parameters if not p.deeper}
    deep = {(t, p.name): p for t, m in space.members.items() for p in m.parameters if p.deeper}

    def rank(schedule: Schedule, guess: float) -> Rank:
        named = [((schedule.template, name), value) for name, value in schedule.items]
        changed = sum(key in plain and plain[key] != value for key, value in named)
        depth = sum(deep[key].code(value) for key, value in named if key in deep)
        return math.floor(guess / TIE), changed, -depth, guess

    return rank
