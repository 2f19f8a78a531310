"""A sampler that also tries what somebody else proposes: its own first proposal, then those, then its own again."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.samplers.base import Sampler
from measurements.records.measurement import Measurement
from search_spaces.spaces.schedule import Schedule


class SeededSampler(Sampler):
    """Put the schedules of an adviser among the first proposals of a sampler, which learns from them as from its own.

    Args:
        sampler: Proposes everything else.
        advice: Schedules of its space, the best first; each is proposed once.
        adviser: The name under which they are kept as the sampler of their trials.
        own_first: Whether the sampler's own first proposal comes before them.
    """

    def __init__(self, sampler: Sampler, advice: Sequence[Schedule], adviser: str, *, own_first: bool = True) -> None:
        self.name = sampler.name
        self._sampler = sampler
        self._adviser = adviser
        self._waiting = list(dict.fromkeys(advice))
        self._given: set[Schedule] = set()
        self._seen = not own_first  # whether anything was asked or told

    @property
    def expected_gain(self) -> float:
        return super().expected_gain if self._waiting else self._sampler.expected_gain

    @property
    def num_guessed(self) -> int:
        return self._sampler.num_guessed

    @property
    def batch(self) -> int:
        return self._sampler.batch

    def proposer(self, schedule: Schedule) -> str:
        return self._adviser if schedule in self._given else self.name

    def ask(self, n: int) -> list[Schedule]:
        proposals = self._own(n if n < 0 or not self._waiting else min(n, 0 if self._seen else 1))
        self._seen = self._seen or n > 0
        self._waiting = [schedule for schedule in self._waiting if schedule not in proposals]
        while len(proposals) < n and self._waiting:
            self._given.add(self._waiting[0])
            proposals.append(self._waiting.pop(0))
        return [*proposals, *self._own(n - len(proposals))] if len(proposals) < n else proposals

    def _own(self, n: int) -> list[Schedule]:
        """Proposals of the sampler, which does not know of what is out that it did not propose."""
        own = self._sampler.ask(n)
        while any(schedule in self._given for schedule in own):
            own = [schedule for schedule in own if schedule not in self._given]
            own += self._sampler.ask(n - len(own))
        return own

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._seen = True
        self._waiting = [other for other in self._waiting if other != schedule]
        self._sampler.tell(schedule, measurement)
