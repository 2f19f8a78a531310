"""Descents: from random schedules, step by step to neighbours with smaller estimated times, without measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.samplers.base import spread_out
from cost_models.estimates import Estimates
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

STARTS = 8  # number of descents; each takes 150 to 300 estimates
# minimum number of parameters in which two starts differ, if possible; the best schedules of a sample are often similar
_DISTANCE = 6
_NEIGHBOURS = 256  # number of neighbours that are estimated per step
_STEPS = 32
# The requested number of samples applies to spaces with up to this number of strata. It is scaled up for more strata.
_STRATA = 2
# suffixes of parameter names that refer to m, n, a and b of a matmul
_OTHER_SIDE = {"_m": "_n", "_n": "_m", "_a": "_b", "_b": "_a"}
TIE = 1e-3  # estimates whose log seconds differ by less than this count as equal; models are not more accurate

Rank = tuple[int, int, int, float]


def starting_points(space: SearchSpace, samples: int, seed: int) -> list[Schedule]:
    """Return random schedules as candidates for starts of descents.

    Args:
        space: Space of the schedules.
        samples: Number of schedules. It is increased if there are many strata, so that there are enough schedules of
            each template.
        seed: Random seed.
    """
    return space.sample(max(samples, math.ceil(samples * round(sum(s.share for s in space.strata)) / _STRATA)), seed)


def descended(space: SearchSpace, estimates: Estimates, starts: Sequence[Schedule]) -> list[Schedule]:
    """Follow steepest descents of the estimated time, and return their ends.

    Args:
        space: Schedules and their neighbours.
        estimates: Estimates with times.
        starts: Schedules to start from; the best STARTS that differ enough are used.

    Returns:
        Different schedules at which descents end, the smallest estimate first; an empty list if all ``starts`` are
        expected to fail.
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
    """Exchange the values of m and n, and the values of a and b, in a schedule. Return [] if the result is illegal.

    The descent needs this step because mirrored schedules are not neighbours, for example tiles of 256 x 128 with
    clusters along n and tiles of 128 x 256 with clusters along m.
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
    """Return a sort key for a schedule and its estimate (log seconds): the smallest estimate first.

    Estimates that differ by less than TIE are ties. Ties are broken in favour of fewer non-default values, then of a
    deeper pipeline.
    """
    plain = {(t, p.name): p.default for t, m in space.members.items() for p in m.parameters if not p.deeper}
    deep = {(t, p.name): p for t, m in space.members.items() for p in m.parameters if p.deeper}

    def rank(schedule: Schedule, guess: float) -> Rank:
        named = [((schedule.template, name), value) for name, value in schedule.items]
        changed = sum(key in plain and plain[key] != value for key, value in named)
        depth = sum(deep[key].code(value) for key, value in named if key in deep)
        return math.floor(guess / TIE), changed, -depth, guess

    return rank
