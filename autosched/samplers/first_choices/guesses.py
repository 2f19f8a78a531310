"""Convert estimates for the Gaussian process: to values, and to one more coordinate.

As a coordinate, an estimate need not be accurate: the model only assumes that schedules with similar estimates have
similar values. So even estimates that are wrong about the fastest schedules identify slow ones. The coordinate is the
rank of an estimate, in steps so coarse that the best few percent share one. Among these, the other coordinates decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models.covariance import Columns
from cost_models.estimates import Estimates
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule

LEAST = -3.0  # smallest log value: all times above 20 times the best one are equivalent
_STEPS = 32  # number of steps of the coordinate


class Guesses:
    """Estimated times relative to the best of some schedules.

    Args:
        estimates: Estimates with times.
        schedules: Schedules whose best estimate is the reference.
    """

    def __init__(self, estimates: Estimates, schedules: Sequence[Schedule]) -> None:
        self._estimates = estimates
        guesses = estimates.log_seconds(schedules)
        self._least = float(guesses.min()) if np.isfinite(guesses).any() else 0.0
        self._sorted = np.sort(-guesses)

    def values(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the logarithm of (best estimate / estimate of the schedule) for each schedule, [n].

        It is LEAST for a schedule that does not fit on the device, and positive for one better than the reference.
        """
        return np.maximum(self._least - self._estimates.log_seconds(schedules), LEAST)

    def coordinate(self, schedules: Sequence[Schedule]) -> Columns:
        """Return the fraction of schedules with a worse estimate, rounded to steps from 0 to 1, float32 [1, n]."""
        worse = np.searchsorted(self._sorted, -self._estimates.log_seconds(schedules)) / max(len(self._sorted) - 1, 1)
        steps: Columns = (np.floor(np.minimum(worse, 1.0) * _STEPS) / _STEPS).astype(np.float32)[None, :]
        return steps
