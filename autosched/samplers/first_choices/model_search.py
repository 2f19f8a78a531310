"""Search for the smallest estimates, at thousands of schedules per second, without compiling or measuring.

A stratified sample is evolved for some generations to find the right region of a large space. Descents from its best
schedules then end in local optima. A small space is estimated exhaustively.
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

WHOLE = 8192  # a space of up to this many schedules is estimated completely
SAMPLES = 4096
POPULATION = 64
GENERATIONS = 16
MUTANTS = 4  # mutants of each member per generation, in addition to one crossover child
TIED = 2  # maximum number of members with the same estimate (within TIE), which would otherwise crowd out the others
BEST = 512  # maximum number of returned schedules


def fastest(space: SearchSpace, estimates: Estimates, seed: int) -> tuple[list[Schedule], int]:
    """Search the schedules with the smallest estimates.

    Args:
        space: Schedules to search.
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
    """Return estimated schedules, the smallest estimate first, without expected failures."""
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
    """Return the POPULATION best of ``schedules``, at most TIED of those with the same estimate."""
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
