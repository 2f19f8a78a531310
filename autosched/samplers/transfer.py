"""Estimates of times from another recording of the same kernel, on another GPU or for another size.

A schedule's estimate is the median time of the configurations in the other recording that have the same values of
shared parameters. If there are no such configurations, boosted trees that are trained on the recording predict the
time. Samplers learn how accurate such estimates are, because another GPU may even rank schedules differently.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from cost_models.estimates import Estimates
from cost_models.features import Matrix
from cost_models.trees.boosted import BoostedModel, BoostedTreeSettings
from measurements.trials.measurement import Measurement
from search_spaces.arrays import FloatArray
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_FAILED = 2.0  # the estimate of a failed configuration is this multiple of the slowest time


class TransferredTimes:
    """Times from another recording, as estimates for the schedules of a space.

    Args:
        space: Schedules to estimate.
        measurements: Results of the other recording.

    Attributes:
        shared: Parameters of the space that also vary in the other recording.

    Raises:
        ValueError: No parameter is shared, or the other recording has no times.
    """

    def __init__(self, space: SearchSpace, measurements: Mapping[Schedule, Measurement]) -> None:
        self._space = space
        own_names = {p.name for member in space.members.values() for p in member.parameters}
        recorded_values: dict[str, dict[Value, None]] = {}
        for schedule in measurements:
            for name, value in schedule.items:
                recorded_values.setdefault(name, {})[value] = None
        self.shared = tuple(name for name, values in recorded_values.items() if name in own_names and len(values) > 1)
        if not self.shared:
            raise ValueError(
                "the two recordings have no varying parameter in common: use a recording of the same kernel"
            )
        self._codes = {name: {value: i for i, value in enumerate(recorded_values[name])} for name in self.shared}
        times: dict[tuple[Value, ...], list[float]] = {}
        for schedule, measurement in measurements.items():
            seconds = math.inf if measurement.timing is None else measurement.timing.median
            times.setdefault(self._key(schedule), []).append(seconds)
        known = {key: statistics.median_low(values) for key, values in times.items()}
        slowest = max((s for s in known.values() if s < math.inf), default=None)
        if slowest is None:
            raise ValueError("the other recording has no times: use a recording with completed trials")
        self._known = {key: math.log(min(seconds, _FAILED * slowest)) for key, seconds in known.items()}
        self._model: BoostedModel | None = None
        self._learned: dict[tuple[Value, ...], float] = {}

    @property
    def estimates(self) -> Estimates:
        """Estimates with transferred times. The features of a schedule are its encoding by the space."""
        return Estimates(self._space.encode, self.log_seconds)

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the logarithm of each schedule's estimated seconds, [n]."""
        keys = [self._key(schedule) for schedule in schedules]
        new = [key for key in dict.fromkeys(keys) if key not in self._known and key not in self._learned]
        if new:
            if self._model is None:
                rows, seconds = list(self._known), np.exp(list(self._known.values()))
                self._model = BoostedModel.fit(self._matrix(rows), seconds, settings=BoostedTreeSettings(patience=20))
            self._learned.update(zip(new, self._model.predict(self._matrix(new)).tolist(), strict=True))
        return np.array([self._known[key] if key in self._known else self._learned[key] for key in keys])

    def _key(self, schedule: Schedule) -> tuple[Value, ...]:
        values = schedule.values
        return tuple(values[name] for name in self.shared)

    def _matrix(self, keys: Sequence[tuple[Value, ...]]) -> Matrix:
        """Return the values of each key as a row of numbers.

        Numbers are unchanged. A string is replaced by its index among the parameter's values in the other recording, or
        by NaN if it is not one of them.
        """
        rows = [
            [
                float(v) if isinstance(v, int) else self._codes[n].get(v, math.nan)
                for n, v in zip(self.shared, k, strict=True)
            ]
            for k in keys
        ]
        return np.array(rows, dtype=np.float32).reshape(len(keys), len(self.shared))
