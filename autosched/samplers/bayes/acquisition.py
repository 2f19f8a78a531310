"""Acquisition functions, which rank schedules before they are tried."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from cost_models.gaussian_process import IncrementalPosterior, Prediction
from search_spaces.arrays import BoolArray, FloatArray, IntArray

# ``likely_optimum`` estimates the improvement over the best value: minimum, maximum and resolution of this estimate.
# The unit is one standard deviation of the values.
LEAST_GAIN, MOST_GAIN, RESOLUTION = 0.05, 8.0, 0.01


def expected_improvement(predicted: Prediction, best: float) -> FloatArray:
    """Return the expected improvement of each predicted value over ``best``, [n] (Jones, Schonlau and Welch, 1998).

    Args:
        predicted: Prediction of n values, in standard deviations.
        best: Best value so far, in the same units.
    """
    deviation = np.maximum(predicted.deviation, 1e-12)
    ahead = (predicted.mean - best) / deviation
    density = np.exp(-0.5 * ahead * ahead) / math.sqrt(2 * math.pi)
    expected: FloatArray = deviation * (ahead * scipy.special.ndtr(ahead) + density)
    return expected


def likely_optimum(predicted: Prediction, best: float, works: FloatArray) -> float:
    """Return the median of the maximum of all values.

    The result is clamped to the range from ``best + LEAST_GAIN`` to ``best + MOST_GAIN``. Values are treated as
    independent random variables, as in Wang, Zhou and Jegelka, Optimization as Estimation with Gaussian Processes in
    Bandit Settings (2016). The probability that a value exceeds a bound is multiplied by the probability that its
    schedule works.

    Args:
        predicted: Prediction of n values, in standard deviations.
        best: Best value so far, in the same units.
        works: Probability that each schedule works, [n].
    """
    deviation = np.maximum(predicted.deviation, 1e-12)
    low, high = best + LEAST_GAIN, best + MOST_GAIN
    while high - low > RESOLUTION:
        middle = (low + high) / 2
        above = scipy.special.ndtr((predicted.mean - middle) / deviation) * works
        none = np.log1p(-np.minimum(above, 1 - 1e-12)).sum()
        low, high = (middle, high) if none < math.log(0.5) else (low, middle)
    return low


def log_probability_to_reach(value: float, predicted: Prediction) -> FloatArray:
    """Return the logarithm of the probability that each predicted value is above ``value``, [n]."""
    ahead: FloatArray = scipy.special.log_ndtr((predicted.mean - value) / np.maximum(predicted.deviation, 1e-12))
    return ahead


@dataclass(frozen=True)
class AcquisitionState:
    """Acquisition function for all schedules of a pool.

    Attributes:
        predicted: Predicted value of each schedule, in standard deviations of the observed values.
        best: Best value so far, in the same units.
        probable: Probability that each schedule works.
        aim: The acquisition is the probability to reach this value. If None, the acquisition is the expected
            improvement over the value ``best + margin``.
        margin: Margin that the expected improvement adds to ``best``, in the same units.
        part: Size of one standard deviation, as a fraction of the best value.
        model: Posterior from which ``predicted`` was computed.
    """

    predicted: Prediction
    best: float
    probable: FloatArray
    aim: float | None
    margin: float
    part: float
    model: IncrementalPosterior

    def worth(self, seen: BoolArray, part: float = 1.0) -> FloatArray:
        """Return the acquisition value of each schedule; minus infinity for schedules that were seen.

        Args:
            seen: True for each schedule that was proposed or reported.
            part: Fraction of the margin to use.
        """
        if self.aim is None:
            worth = expected_improvement(self.predicted, self.best + part * self.margin) * self.probable
        else:
            reach = log_probability_to_reach(self.aim, self.predicted)
            worth = reach + np.log(np.maximum(self.probable, 1e-300))
        worth[seen] = -math.inf
        return worth

    def at(self, positions: IntArray) -> AcquisitionState:
        """Return the acquisition function for the schedules at these positions of the pool."""
        predicted = Prediction(self.predicted.mean[positions], self.predicted.deviation[positions])
        return replace(self, predicted=predicted, probable=self.probable[positions])

    def reduced(self, reduction: FloatArray) -> AcquisitionState:
        """Return the state with a smaller variance. Means are unchanged, because pending values are imputed with them.

        Args:
            reduction: Reduction of the variance of each schedule.
        """
        deviation = np.sqrt(np.maximum(self.predicted.deviation**2 - reduction, 1e-12))
        return replace(self, predicted=Prediction(self.predicted.mean, deviation))

    def gain(self, position: int) -> float:
        """Return the expected improvement of one schedule, without a margin, as a fraction of the best value."""
        at = slice(position, position + 1)
        prediction = Prediction(self.predicted.mean[at], self.predicted.deviation[at])
        return float((expected_improvement(prediction, self.best) * self.part * self.probable[at])[0])
