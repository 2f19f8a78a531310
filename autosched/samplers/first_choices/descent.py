"""Descents from random schedules to neighbours with smaller estimated times, without measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.samplers.base import spread_out
from cost_models.estimates import Estimates
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

STARTS = 8  # number of starts; each descent takes 150 to 300 estimates
_DISTANCE = 6  # number of parameters in which starts differ if possible, because the best of a sample are often similar
_NEIGHBOURS = 256  # neighbours estimated per step
_STEPS = 32
# The requested number of samples is meant for this many strata, and is scaled up for spaces with more.
_STRATA = 2
_OTHER_SIDE = {"_m": "_n", "_n": "_m", "_a": "_b", "_b": "_a"}  # ends of the names of parameters of a matmul
TIE = 1e-3  # smaller differences of log seconds are below the resolution of any model

Rank = tuple[int, int, int, float]


def starting_points(space: SearchSpace, samples: int, seed: int) -> list[Schedule]:
    """Return random schedules to start descents from.

    Args:
        space: Schedules to draw.
        samples: Number of schedules. More are drawn if there are many strata, so that each template gets enough.
        seed: Random seed.
    """
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
        current = start
        best = rank_of[start]
        for _ in range(_STEPS):
            near = [*space.neighbours(current, _NEIGHBOURS), *_mirrored(space, current)]
            predicted = estimates.log_seconds(near)
            ranks = {
                n: rank(n, float(g)) for n, g in zip(near, predicted, strict=True) if g < math.log1p(TIE) + best[-1]
            }
            if not ranks or not min(ranks.values()) < best:
                break
            current = min(ranks, key=lambda schedule: ranks[schedule])
            best = ranks[current]
        ends[current] = best
    return sorted(ends, key=lambda schedule: ends[schedule])


def _mirrored(space: SearchSpace, schedule: Schedule) -> list[Schedule]:
    """Return the schedule with the values along m and n exchanged, and those of a and b; nothing if it is not legal.

    A tile of 256 x 128 in clusters along n and one of 128 x 256 in clusters along m are not neighbours.
    """
    values = schedule.values
    exchanged = {
        name: values[other]
        for name in values
        if (other := name[:-2] + _OTHER_SIDE.get(name[-2:], "")) in values and values[other] != values[name]
    }
    mirrored = schedule.replace(**exchanged)
    return [mirrored] if exchanged and mirrored in space else []


def ranking(space: SearchSpace) -> Callable[[Schedule, float], Rank]:
    """Return the rank of a schedule with an estimate (log seconds), the smallest first.

    Estimates that differ by less than TIE are ties. Fewer parameters with non-default values break a tie, then a deeper
    pipeline.
    """
    plain = {(t, p.name): p.default for t, m in space.members.items() for p in m.parameters if not p.deeper}
    deep = {(t, p.name): p for t, m in space.members.items() for p in m.parameters if p.deeper}

    def rank(schedule: Schedule, guess: float) -> Rank:
        named = [((schedule.template, name), value) for name, value in schedule.items]
        changed = sum(key in plain and plain[key] != value for key, value in named)
        depth = sum(deep[key].code(value) for key, value in named if key in deep)
        return math.floor(guess / TIE), changed, -depth, guess

    return rank
