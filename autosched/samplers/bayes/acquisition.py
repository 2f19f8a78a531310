"""Acquisition functions: the worth of a trial before it is made."""

from __future__ import annotations

import math

import numpy as np
import scipy

from cost_models.gaussian_process import Prediction
from search_spaces.arrays import FloatArray

LEAST_GAIN, MOST_GAIN, RESOLUTION = 0.05, 8.0, 0.01  # in deviations of the values


def expected_improvement(predicted: Prediction, best: float) -> FloatArray:
    """Return the expected improvement of each value over ``best``, [n] (Jones, Schonlau and Welch, 1998)."""
    deviation = np.maximum(predicted.deviation, 1e-12)
    ahead = (predicted.mean - best) / deviation
    density = np.exp(-0.5 * ahead * ahead) / math.sqrt(2 * math.pi)
    expected: FloatArray = deviation * (ahead * scipy.special.ndtr(ahead) + density)
    return expected


def likely_optimum(predicted: Prediction, best: float, works: FloatArray) -> float:
    """Return the median of the largest value, at least ``best`` plus ``LEAST_GAIN``.

    Values count as independent, as in Wang, Zhou and Jegelka, Optimization as Estimation with Gaussian Processes in
    Bandit Settings (2016), each weighted by the probability ``works`` [n] that its schedule works.
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
    """Return the logarithm of the probability that each value is above ``value``, [n]."""
    ahead: FloatArray = scipy.special.log_ndtr((predicted.mean - value) / np.maximum(predicted.deviation, 1e-12))
    return ahead
