"""Sampler that also proposes schedules near fast ones: siblings, which share their module, and neighbours.

A proposal of a sampler that learns takes some 0.1 s, and a GPU races a candidate in a tenth of that. In between, the
siblings and neighbours of the fastest schedules are tried, in the order of their estimates. Siblings differ only in
what the launch carries, so that they are compiled already.
"""

from __future__ import annotations

import itertools

from autosched.samplers.base import Sampler
from cost_models.estimates import Estimates
from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import Space

NAME = "launch_siblings"
DECISIONS_OF_LAUNCH = ("raster", "l2_evict_last", "l2_promotion")  # which change no code, but for a curve
FOR_EACH = 16  # proposals, of which one is the sampler's own
NEAR = 1.06  # times the best time, within which a schedule's siblings are tried


class SiblingSampler(Sampler):
    """Put siblings of fast schedules between the proposals of a sampler, which learns from them as from its own.

    Args:
        sampler: Proposes everything else.
        space: Its space.
        estimates: Estimates with times, by which siblings of one schedule are ordered.
        enough: Number of results from which on siblings are proposed.
    """

    def __init__(self, sampler: Sampler, space: SearchSpace, estimates: Estimates, *, enough: int) -> None:
        self.name = sampler.name
        self._sampler, self._space, self._estimates, self._enough = sampler, space, estimates, enough
        self._seconds: dict[Schedule, float] = {}
        self._best = float("inf")
        self._seen: set[Schedule] = set()
        self._siblings: set[Schedule] = set()  # proposed here
        self._waiting: dict[Schedule, list[Schedule] | None] = {}  # near each fast schedule, the last one first; lazily
        self._swept = set[object]()  # modules whose siblings were listed
        self._num_reported = self._turn = 0

    @property
    def expected_gain(self) -> float:
        return self._sampler.expected_gain

    @property
    def num_guessed(self) -> int:
        return self._sampler.num_guessed

    @property
    def batch(self) -> int:
        return FOR_EACH * self._sampler.batch

    def proposer(self, schedule: Schedule) -> str:
        return NAME if schedule in self._siblings else self._sampler.proposer(schedule)

    def ask(self, n: int) -> list[Schedule]:
        if n < 0:
            return self._sampler.ask(n)
        proposals: list[Schedule] = []
        while len(proposals) < n:
            sibling = self._sibling() if self._num_reported >= self._enough and self._turn % FOR_EACH else None
            self._turn += 1
            found = [sibling] if sibling is not None else self._own()
            if not found:
                break
            proposals += found
        return proposals

    def _own(self) -> list[Schedule]:
        """Return one proposal of the sampler that was not made here, or none if no others remain."""
        while own := self._sampler.ask(1):
            if own[0] not in self._seen:
                self._seen.add(own[0])
                return own
        return []

    def _sibling(self) -> Schedule | None:
        """Return an untried schedule near the fastest one that has any left, if that is fast enough."""
        for schedule in sorted(self._waiting, key=self._seconds.__getitem__):
            if self._seconds[schedule] > NEAR * self._best:
                return None
            if self._waiting[schedule] is None:
                self._waiting[schedule] = self._near(schedule)
            waiting = self._waiting[schedule] or []
            while waiting:
                sibling = waiting.pop()
                if sibling not in self._seen:
                    self._seen.add(sibling)
                    self._siblings.add(sibling)
                    return sibling
            del self._waiting[schedule]
        return None

    def _near(self, schedule: Schedule) -> list[Schedule]:
        """Return the siblings of a schedule, once for each module, and its neighbours; the smallest estimate last."""
        found = self._space.neighbours(schedule)
        own = tuple(item for item in schedule.items if item[0] not in DECISIONS_OF_LAUNCH)
        if (schedule.template, own) not in self._swept:
            self._swept.add((schedule.template, own))
            found = list(dict.fromkeys([*self._siblings_of(schedule), *found]))
        new = [near for near in found if near not in self._seen]
        seconds = self._estimates.log_seconds(new)
        return [new[i] for i in sorted(range(len(new)), key=lambda i: -seconds[i])]

    def _siblings_of(self, schedule: Schedule) -> list[Schedule]:
        member = self._space.members[schedule.template]
        values = {p.name: p.values for p in member.parameters if p.name in DECISIONS_OF_LAUNCH}
        if not values or not isinstance(member, Space):
            return []
        found = [
            Schedule(schedule.template, tuple({**schedule.values, **dict(zip(values, chosen, strict=True))}.items()))
            for chosen in itertools.product(*values.values())
        ]
        allowed = member.allowed(member.columns(found))
        return [s for s, legal in zip(found, allowed, strict=True) if legal and s != schedule]

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._num_reported += 1
        self._seen.add(schedule)
        self._sampler.tell(schedule, measurement)
        if measurement.timing is None:
            return
        known = self._seconds.get(schedule, float("inf"))
        self._seconds[schedule] = min(known, measurement.timing.median)
        self._best = min(self._best, measurement.timing.median)
        if known == float("inf") and self._seconds[schedule] <= NEAR * self._best:
            self._waiting[schedule] = None
