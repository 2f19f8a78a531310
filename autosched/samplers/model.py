"""Propose what the prior guesses to be the fastest, in that order, and learn nothing from results.

This is the search where the prior itself makes the times, as the time model does without a GPU: trials then show only
what a compiler knows (registers, spills), so that a few of the best are enough. Its ``expected_gain`` says when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.samplers.base import Prior, Sampler, UnvisitedPool, spread_out
from autosched.samplers.first_choices.model_search import Guessed, fastest
from measurements.records.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

DISTANCE = 2  # parameters in which the first proposals differ: near ones are compiled to the same registers
SPREAD = 48  # proposals that do


class ModelSampler(Sampler):
    """Proposes the schedules that ``prior`` guesses to be the fastest; afterwards, and without guesses, random ones.

    Args:
        space: Space of the proposals.
        seed: Random seed.
        prior: Its ``log_seconds`` are searched.
    """

    name = "model"

    def __init__(self, space: SearchSpace, seed: int, *, prior: Prior | None = None) -> None:
        self._space = space
        self._seed = seed
        self._unseen = UnvisitedPool(space, seed)
        self._guessed = Guessed(prior) if prior is not None and prior.log_seconds(()) is not None else None
        self._ranked: list[Schedule] | None = None  # the next one last
        self._best = math.inf  # log seconds
        self._gain = math.inf

    @property
    def expected_gain(self) -> float:
        return self._gain

    @property
    def num_guessed(self) -> int:
        return 0 if self._guessed is None else len(self._guessed)

    def ask(self, n: int) -> list[Schedule]:
        self._unseen.check(n)
        proposals: list[Schedule] = []
        while len(proposals) < n and (schedule := self._next()) is not None:
            self._unseen.remove(schedule)
            proposals.append(schedule)
        random = self._unseen.draw(n - len(proposals))
        self._gain = self._expected(proposals) if not random else math.inf
        return [*proposals, *random]

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._unseen.remove(schedule)
        if measurement.timing is not None:
            self._best = min(self._best, math.log(measurement.timing.median))

    def _next(self) -> Schedule | None:
        if self._guessed is None:
            return None
        if self._ranked is None:
            ranked = fastest(self._space, self._guessed, self._seed)
            first = spread_out(ranked, SPREAD, DISTANCE)
            self._ranked = list(dict.fromkeys([*first, *ranked]))[::-1]
        while self._ranked:
            if (schedule := self._ranked.pop()) in self._unseen:
                return schedule
        return None

    def _expected(self, proposals: Sequence[Schedule]) -> float:
        """Return by how much the last proposal is guessed to shorten the best time, a fraction of it."""
        if self._guessed is None or not proposals or math.isinf(self._best):
            return math.inf
        return max(0.0, 1.0 - math.exp(self._guessed.guesses[proposals[-1]] - self._best))
