"""Search for objectives other than time: one sampler per weighted sum of the objectives' logarithms.

Objectives need not be scaled, because the unit of an objective only adds a constant to its logarithm. There is one
sampler for each of several weight vectors, so that the search covers the Pareto front (where the front of the
logarithms is convex). Every sampler learns from every trial.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from autosched.samplers.base import Sampler
from measurements.trials.measurement import Measurement, Status, Timing
from search_spaces.spaces.schedule import Schedule

Costs = Callable[[Schedule, Measurement], tuple[float, ...] | None]


class ScalarizedSampler(Sampler):
    """Alternates between several samplers. Each sampler has its own weights of the objectives.

    Args:
        samplers: One sampler for each of ``weights``.
        weights: Weights of the objectives.
        costs: Function that returns the logarithms of a trial's objectives; None if an objective has no value.
    """

    def __init__(self, samplers: Sequence[Sampler], weights: Sequence[Sequence[float]], costs: Costs) -> None:
        self.name = samplers[0].name
        self._samplers = list(samplers)
        self._weights = [tuple(w) for w in weights]
        self._costs = costs
        self._next = 0
        self._pending: set[Schedule] = set()  # schedules that were proposed but have no reported result

    @property
    def batch(self) -> int:
        """Batch size of the first sampler. All samplers have the same type and therefore the same batch size."""
        return self._samplers[0].batch

    def ask(self, n: int) -> list[Schedule]:
        """Return proposals of the samplers in turn, with the same number from each sampler."""
        proposals: list[Schedule] = []
        while len(proposals) < n:
            share = math.ceil((n - len(proposals)) / len(self._samplers))
            member = self._samplers[self._next % len(self._samplers)]
            self._next += 1
            member_proposals = member.ask(share)
            if not member_proposals:  # this sampler has no further proposals
                break
            new = [schedule for schedule in member_proposals if schedule not in self._pending]
            self._pending.update(new)
            proposals += new
        else:
            self._samplers[0].ask(min(n, 0))  # the sampler raises ValueError for a negative number
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Report the result to every sampler, with the sampler's weighted objective instead of the time."""
        self._pending.discard(schedule)
        costs = self._costs(schedule, measurement)
        for member, weights in zip(self._samplers, self._weights, strict=True):
            member.tell(schedule, self._scored(measurement, costs, weights))

    def _scored(
        self, measurement: Measurement, costs: tuple[float, ...] | None, weights: Sequence[float]
    ) -> Measurement:
        """Return the measurement with the weighted objective instead of its time."""
        if measurement.timing is None:
            return measurement
        if costs is None:
            reason = "an objective has no value for this trial"
            return dataclasses.replace(measurement, status=Status.UNRANKED, reason=reason, timing=None)
        cost = sum(w * c for w, c in zip(weights, costs, strict=True))
        return dataclasses.replace(measurement, timing=Timing.estimate(math.exp(cost)))
