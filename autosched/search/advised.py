"""A sampler that also tries what somebody else proposes: its own first proposal, then those, then its own again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.search.base import Foresighted, Sampler
from measurements.measurement import Measurement
from search_spaces.spaces.schedule import Schedule


class Advised:
    """``sampler`` with the ``advice`` of ``adviser``, schedules of its space, among its first proposals. It learns from
    them as from its own."""

    def __init__(self, sampler: Sampler, advice: Sequence[Schedule], adviser: str) -> None:
        self._sampler = sampler
        self._adviser = adviser
        self._waiting = list(dict.fromkeys(advice))
        self._given: set[Schedule] = set()
        self._seen = False  # whether anything was asked or told

    @property
    def name(self) -> str:
        return self._sampler.name

    @property
    def expected_gain(self) -> float:
        """As ``Foresighted`` says."""
        if self._waiting or not isinstance(self._sampler, Foresighted):
            return math.inf
        return self._sampler.expected_gain

    def proposer(self, schedule: Schedule) -> str:
        """As ``Attributing`` says."""
        return self._adviser if schedule in self._given else self.name

    def ask(self, n: int) -> list[Schedule]:
        own = self._sampler.ask(n if n < 0 or not self._waiting else min(n, 0 if self._seen else 1))
        proposals = [schedule for schedule in own if schedule not in self._given]
        self._seen = self._seen or n > 0
        self._waiting = [schedule for schedule in self._waiting if schedule not in proposals]
        while len(proposals) < n and self._waiting:
            self._given.add(self._waiting[0])
            proposals.append(self._waiting.pop(0))
        while len(proposals) < n:
            more = self._sampler.ask(n - len(proposals))
            if not more:
                break
            proposals += [schedule for schedule in more if schedule not in self._given]
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._seen = True
        self._waiting = [other for other in self._waiting if other != schedule]
        self._sampler.tell(schedule, measurement)
