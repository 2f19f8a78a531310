"""Sampler that proposes schedules in the order of their estimates, regardless of results.

This sampler is used if there is no GPU, so that the search ranks schedules by estimates. A trial then only adds the
numbers of registers and spills, which the compiler reports, so a few trials suffice. ``expected_gain`` shows when to
stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.samplers.base import Sampler, UnvisitedPool, spread_out
from autosched.samplers.first_choices.model_search import fastest
from cost_models.estimates import Estimates
from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

# Minimum number of parameters in which the first proposals differ from each other. Schedules that are more similar
# would use similar numbers of registers.
DISTANCE = 2
SPREAD = 48  # number of first proposals that differ in this way


class ModelSampler(Sampler):
    """Proposes schedules with the smallest estimates, then random schedules. Without estimates, all are random.

    Args:
        space: Space of the proposals.
        seed: Random seed.
        estimates: Estimates by which schedules are ranked. Default: none.
    """

    name = "model"

    def __init__(self, space: SearchSpace, seed: int, *, estimates: Estimates | None = None) -> None:
        self._space = space
        self._seed = seed
        self._unseen = UnvisitedPool(space, seed)
        self._estimates = estimates if estimates is not None and estimates.has_times else None
        self._num_estimated = 0
        # remaining proposals in reverse order, with the next proposal as the last element
        self._ranked: list[Schedule] | None = None
        self._best = math.inf  # log of the estimated seconds
        self._gain = math.inf

    @property
    def expected_gain(self) -> float:
        """Expected relative improvement of the last proposals, according to their estimates."""
        return self._gain

    @property
    def num_guessed(self) -> int:
        """Number of schedules that were estimated."""
        return self._num_estimated

    def ask(self, n: int) -> list[Schedule]:
        """Return the schedules with the smallest estimates in order, then random schedules."""
        self._unseen.check(n)
        proposals: list[Schedule] = []
        while len(proposals) < n and (schedule := self._next()) is not None:
            self._unseen.remove(schedule)
            proposals.append(schedule)
        random = self._unseen.draw(n - len(proposals))
        self._gain = self._expected(proposals) if not random else math.inf
        return [*proposals, *random]

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Record the best time. Results do not change the order of proposals."""
        self._unseen.remove(schedule)
        if measurement.timing is not None:
            self._best = min(self._best, math.log(measurement.timing.median))

    def _next(self) -> Schedule | None:
        if self._estimates is None:
            return None
        if self._ranked is None:
            ranked, self._num_estimated = fastest(self._space, self._estimates, self._seed)
            first = spread_out(ranked, SPREAD, DISTANCE)
            self._ranked = list(dict.fromkeys([*first, *ranked]))[::-1]
        while self._ranked:
            if (schedule := self._ranked.pop()) in self._unseen:
                return schedule
        return None

    def _expected(self, proposals: Sequence[Schedule]) -> float:
        """Return the estimated gain of the last proposal over the best time, as a fraction of the best time."""
        if self._estimates is None or not proposals or math.isinf(self._best):
            return math.inf
        return max(0.0, 1.0 - math.exp(float(self._estimates.log_seconds(proposals[-1:])[0]) - self._best))
