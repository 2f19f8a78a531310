"""Search the guesses of a prior itself, some thousands of schedules a second; nothing is compiled or measured.

A stratified sample is evolved for some generations, which finds the right region of a large space, and descents from
its best end in local optima. A small space is guessed as a whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from autosched.samplers.base import Prior
from autosched.samplers.first_choices.descent import TIE, descended, ranking
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

WHOLE = 8192  # a space of up to so many schedules is guessed as a whole
SAMPLES = 4096
POPULATION = 64
GENERATIONS = 16
MUTANTS = 4  # of each member of the population in a generation, next to one child of two parents
TIED = 2  # members of the population whose guesses are the same within TIE: many are, and would crowd out the others
BEST = 512  # schedules that are returned


class Guessed:
    """A prior that keeps every guess it has made."""

    def __init__(self, prior: Prior) -> None:
        self._prior = prior
        self.guesses: dict[Schedule, float] = {}

    def __len__(self) -> int:
        return len(self.guesses)

    def features(self, schedules: Sequence[Schedule]) -> np.typing.NDArray[np.float32]:
        return self._prior.features(schedules)

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the guesses, [n]. Raises ValueError for a prior without guesses."""
        new = [schedule for schedule in dict.fromkeys(schedules) if schedule not in self.guesses]
        if new:
            found = self._prior.log_seconds(new)
            if found is None:
                raise ValueError("this prior guesses no times: use one that does")
            self.guesses.update(zip(new, found.tolist(), strict=True))
        return np.array([self.guesses[schedule] for schedule in schedules], dtype=np.float64)

    def in_order(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """Return guessed schedules, the smallest guess first, without those that are guessed to fail."""
        fitting = [schedule for schedule in schedules if math.isfinite(self.guesses[schedule])]
        return sorted(fitting, key=lambda schedule: self.guesses[schedule])


def fastest(space: SearchSpace, prior: Guessed, seed: int) -> list[Schedule]:
    """Return up to BEST schedules that ``prior`` guesses to be the fastest, in the order of ``descent.ranking``."""
    if space.count() <= WHOLE:
        prior.log_seconds(space.sample(WHOLE, seed))
    else:
        descended(space, prior, _evolved(space, prior, seed))
    rank = ranking(space)
    return sorted(prior.in_order(prior.guesses)[:BEST], key=lambda schedule: rank(schedule, prior.guesses[schedule]))


def _evolved(space: SearchSpace, prior: Guessed, seed: int) -> list[Schedule]:
    rng = np.random.default_rng([seed, SAMPLES])
    living = space.sample(SAMPLES, seed)
    prior.log_seconds(living)
    living = _survivors(prior, living)
    for _ in range(GENERATIONS if living else 0):
        others = [living[int(i)] for i in rng.random(len(living)) * len(living)]
        children = [*space.mutate(living * MUTANTS, rng), *space.crossover(living, others, rng)]
        living = list(dict.fromkeys([*living, *children]))
        prior.log_seconds(living)
        living = _survivors(prior, living)
    return living


def _survivors(prior: Guessed, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the POPULATION best of ``schedules``, at most TIED of those that tie."""
    ties = Counter[int]()
    survivors: list[Schedule] = []
    for schedule in prior.in_order(schedules):
        tie = math.floor(prior.guesses[schedule] / TIE)
        ties[tie] += 1
        if ties[tie] <= TIED:
            survivors.append(schedule)
        if len(survivors) == POPULATION:
            break
    return survivors
