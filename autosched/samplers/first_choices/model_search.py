"""Search for the schedules with the smallest estimates, without compiling or measuring (thousands per second).

A stratified sample is evolved for some generations, to find the best region of a large space. Descents from the best
schedules then find local optima. All schedules of a small space are estimated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from autosched.samplers.first_choices.descent import TIE, descended, ranking
from cost_models.estimates import Estimates
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

WHOLE = 8192  # all schedules of a space up to this size are estimated
SAMPLES = 4096
POPULATION = 64
GENERATIONS = 16
MUTANTS = 4  # number of mutants of each schedule per generation, in addition to one crossover child
TIED = 2  # maximum number of schedules in a generation with the same estimate (within TIE), to keep it diverse
BEST = 512  # maximum number of returned schedules


def fastest(space: SearchSpace, estimates: Estimates, seed: int) -> tuple[list[Schedule], int]:
    """Find the schedules with the smallest estimates.

    Args:
        space: Space to search.
        estimates: Estimates with times.
        seed: Random seed.

    Returns:
        Up to BEST schedules in the order of ``descent.ranking``, and the number of schedules that were estimated.
    """
    seen = Estimates(estimates.features, estimates.log_seconds, most=math.inf)
    if space.count() <= WHOLE:
        seen.log_seconds(space.sample(WHOLE, seed))
    else:
        descended(space, seen, _evolved(space, seen, seed))
    rank = ranking(space)
    best = _in_order(seen, seen.known)[:BEST]
    return sorted(best, key=lambda schedule: rank(schedule, seen.known[schedule])), len(seen.known)


def _in_order(seen: Estimates, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the estimated schedules, the smallest estimate first. Expected failures are omitted."""
    fitting = [schedule for schedule in schedules if math.isfinite(seen.known[schedule])]
    return sorted(fitting, key=lambda schedule: seen.known[schedule])


def _evolved(space: SearchSpace, seen: Estimates, seed: int) -> list[Schedule]:
    rng = np.random.default_rng([seed, SAMPLES])
    living = space.sample(SAMPLES, seed)
    seen.log_seconds(living)
    living = _survivors(seen, living)
    for _ in range(GENERATIONS if living else 0):
        partners = [living[int(i)] for i in rng.random(len(living)) * len(living)]
        children = [*space.mutate(living * MUTANTS, rng), *space.crossover(living, partners, rng)]
        living = list(dict.fromkeys([*living, *children]))
        seen.log_seconds(living)
        living = _survivors(seen, living)
    return living


def _survivors(seen: Estimates, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the best schedules: at most POPULATION in total, and at most TIED with the same estimate."""
    ties = Counter[int]()
    survivors: list[Schedule] = []
    for schedule in _in_order(seen, schedules):
        tie = math.floor(seen.known[schedule] / TIE)
        ties[tie] += 1
        if ties[tie] <= TIED:
            survivors.append(schedule)
        if len(survivors) == POPULATION:
            break
    return survivors
