"""Conversion of estimated times to values and to an additional coordinate for the Gaussian process.

As a coordinate, an estimate need not be accurate: the model only assumes that schedules with similar estimates have
similar values. So even estimates that are wrong about the fastest schedules help to identify slow schedules. The
coordinate is the rank of an estimate, in steps so coarse that the best few percent have the same coordinate. Among
these schedules, the other coordinates decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models.covariance import Columns
from cost_models.estimates import Estimates
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule

# lower bound of log(best time / time): all schedules that take more than 20 (exp 3) times the best time get this value
LEAST = -3.0
_STEPS = 32  # number of steps of the coordinate


class Guesses:
    """Estimated times, relative to the best estimate among reference schedules.

    Args:
        estimates: Estimates with times.
        schedules: Reference schedules.
    """

    def __init__(self, estimates: Estimates, schedules: Sequence[Schedule]) -> None:
        self._estimates = estimates
        guesses = estimates.log_seconds(schedules)
        self._least = float(guesses.min()) if np.isfinite(guesses).any() else 0.0
        self._sorted = np.sort(-guesses)

    def values(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the logarithm of (best estimate / estimate of the schedule) for each schedule, [n].

        The value is LEAST for a schedule that does not fit on the device, and positive for a schedule that is better
        than all reference schedules.
        """
        return np.maximum(self._least - self._estimates.log_seconds(schedules), LEAST)

    def coordinate(self, schedules: Sequence[Schedule]) -> Columns:
        """For each schedule, return the fraction of reference schedules with a worse estimate, float32 [1, n].

        Fractions are rounded down to multiples of a step.
        """
        worse = np.searchsorted(self._sorted, -self._estimates.log_seconds(schedules)) / max(len(self._sorted) - 1, 1)
        steps: Columns = (np.floor(np.minimum(worse, 1.0) * _STEPS) / _STEPS).astype(np.float32)[None, :]
        return steps
