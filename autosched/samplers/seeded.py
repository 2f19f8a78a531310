"""Sampler that first proposes schedules of an adviser."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.samplers.base import Sampler
from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule


class SeededSampler(Sampler):
    """Inserts an adviser's schedules into the first proposals of a sampler, which also learns from their results.

    Args:
        sampler: Wrapped sampler, which proposes all other schedules.
        advice: Schedules of the sampler's space, the best first. Each is proposed once.
        adviser: Name of the adviser, which is stored in the trials of its schedules.
        own_first: True if the first proposal is the wrapped sampler's, before the advice.
        enough: Number of results after which the remaining advice is dropped. Default: never.
    """

    def __init__(
        self,
        sampler: Sampler,
        advice: Sequence[Schedule],
        adviser: str,
        *,
        own_first: bool = True,
        enough: float = math.inf,
    ) -> None:
        self.name = sampler.name
        self._sampler = sampler
        self._adviser = adviser
        self._advice = list(dict.fromkeys(advice))
        self._advised: set[Schedule] = set()
        self._started = not own_first  # True if a schedule was proposed or reported
        self._enough = enough
        self._num_reported = 0

    @property
    def expected_gain(self) -> float:
        """Expected gain of the wrapped sampler's proposals; infinite while advice remains."""
        return super().expected_gain if self._advice else self._sampler.expected_gain

    @property
    def num_guessed(self) -> int:
        """Number of schedules whose times the wrapped sampler estimated."""
        return self._sampler.num_guessed

    @property
    def batch(self) -> int:
        """Batch size of the wrapped sampler."""
        return self._sampler.batch

    def consider(self, schedules: Sequence[Schedule]) -> None:
        """Pass the schedules to the wrapped sampler."""
        self._sampler.consider(schedules)

    def prepare(self) -> None:
        """Prepare the wrapped sampler."""
        self._sampler.prepare()

    def proposer(self, schedule: Schedule) -> str:
        """Return the adviser's name for schedules that the adviser suggested, else the wrapped sampler's name."""
        return self._adviser if schedule in self._advised else self.name

    def ask(self, n: int) -> list[Schedule]:
        """Return the wrapped sampler's first proposal, then the advice, then further proposals of the sampler."""
        proposals = self._own(n if n < 0 or not self._advice else min(n, 0 if self._started else 1))
        self._started = self._started or n > 0
        self._advice = [schedule for schedule in self._advice if schedule not in proposals]
        while len(proposals) < n and self._advice:
            self._advised.add(self._advice[0])
            proposals.append(self._advice.pop(0))
        return [*proposals, *self._own(n - len(proposals))] if len(proposals) < n else proposals

    def _own(self, n: int) -> list[Schedule]:
        """Return proposals of the wrapped sampler, except schedules that were already proposed as advice."""
        proposals = self._sampler.ask(n)
        while any(schedule in self._advised for schedule in proposals):
            proposals = [schedule for schedule in proposals if schedule not in self._advised]
            proposals += self._sampler.ask(n - len(proposals))
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Report the result to the wrapped sampler, and drop the schedule from the advice."""
        self._started = True
        self._num_reported += 1
        enough = self._num_reported >= self._enough
        self._advice = [] if enough else [other for other in self._advice if other != schedule]
        self._sampler.tell(schedule, measurement)
