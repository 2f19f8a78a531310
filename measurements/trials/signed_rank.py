"""Wilcoxon's signed-rank test of paired differences: confidence interval and p-value of the differences' centre.

The test assumes that differences are symmetric about their centre. Log-ratios of times measured in alternation are
symmetric, because noise affects numerator and denominator alike. For normal noise, the test needs 1.05 times as many
pairs as a t-test; the sign test needs 1.57 times as many. The test is as robust to outliers as a median.
Distribution and interval are exact up to EXACT pairs; for more pairs the normal approximation is used (Hollander,
Wolfe, Chicken, "Nonparametric Statistical Methods", 3rd edition, sections 3.1 and 3.3).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from search_spaces.arrays import FloatArray

# For more pairs, computing the exact distribution takes seconds; it differs from the normal distribution by less than
# 0.1%.
EXACT = 400


def interval(differences: FloatArray, confidence: float) -> tuple[float, float] | None:
    """Return a confidence interval for the centre of ``differences``.

    The ends of the interval are order statistics of the means of all pairs of differences (Walsh averages). Returns
    None if there are too few differences: fewer than 6 for 95%, fewer than 8 for 99%.
    """
    rank = _rank(len(differences), (1 - confidence) / 2)
    if rank == 0:
        return None
    averages = _walsh(differences)
    low, high = rank - 1, len(averages) - rank
    ordered = np.partition(averages, (low, high))
    return float(ordered[low]), float(ordered[high])


def p_value(differences: FloatArray, centre: float) -> float:
    """Return the p-value of the hypothesis that the true centre of ``differences`` is at most ``centre``."""
    above = int(np.count_nonzero(_walsh(differences) > centre))
    below = len(differences) * (len(differences) + 1) // 2 - above
    n = len(differences)  # P(W >= above) = P(W <= below), because the distribution of W is symmetric
    return _normal(n).cdf(below + 0.5) if n > EXACT else float(_cumulative(n)[below])


def _rank(n: int, probability: float) -> int:
    """Return the number of w >= 0 with P(W <= w) <= ``probability``, where W is the signed-rank statistic."""
    if n > EXACT:
        return max(math.floor(_normal(n).inv_cdf(probability) + 0.5), 0)
    return int(np.searchsorted(_cumulative(n), probability, side="right"))


def _normal(n: int) -> NormalDist:
    return NormalDist(n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))


def _walsh(differences: FloatArray) -> FloatArray:
    first, second = _pairs(len(differences))
    averages: FloatArray = (differences[first] + differences[second]) / 2
    return averages


@lru_cache(maxsize=16)
def _pairs(n: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    first, second = np.triu_indices(n)
    return first, second


@lru_cache(maxsize=64)
def _cumulative(n: int) -> FloatArray:
    """Return P(W <= w) for w = 0 .. n (n + 1) / 2.

    W is the sum of a random subset of the ranks 1 .. n, which contains each rank with probability 1/2.
    """
    weights = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(len(weights) + rank)
        longer[: len(weights)] += weights / 2
        longer[rank:] += weights / 2
        weights = longer
    cumulative: FloatArray = np.cumsum(weights)
    return cumulative
