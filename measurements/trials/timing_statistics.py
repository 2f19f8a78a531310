"""Statistics of times in seconds: noise, stopping rules, and comparisons.

All functions use medians and quartiles, because the distribution of GPU times has a long tail of slow times. No
function is random.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np

from measurements.trials import signed_rank
from measurements.trials.measurement import Timing
from search_spaces.arrays import FloatArray

_IQR_OF_NORMAL = 1.3490  # ratio of a normal distribution's interquartile range to its standard deviation
# sqrt(pi / 2): ratio of the standard errors of median and mean, for a normal distribution
_MEDIAN_EFFICIENCY = 1.2533


def relative_noise(seconds: Sequence[float]) -> float:
    """Return the ratio of standard deviation to median. The deviation is estimated from quartiles, to ignore outliers.

    The result is infinite for fewer than two values.
    """
    if len(seconds) < 2:
        return math.inf
    p25, median, p75 = statistics.quantiles(seconds, n=4, method="inclusive")
    return (p75 - p25) / _IQR_OF_NORMAL / median if median > 0 else math.inf


def median_error(seconds: Sequence[float]) -> float:
    """Return the relative standard error of the median of ``seconds``."""
    return _MEDIAN_EFFICIENCY * relative_noise(seconds) / math.sqrt(max(len(seconds), 1))


def error_of_median(timing: Timing) -> float:
    """Return the relative standard error of a stored median, computed from its quartiles; 0 for an estimate."""
    spread = (timing.p75 - timing.p25) / _IQR_OF_NORMAL / timing.median
    return _MEDIAN_EFFICIENCY * spread / math.sqrt(max(timing.count, 1))


@dataclass(frozen=True)
class StopRule:
    """Rule that ends a timing once the median's relative standard error is at most ``target``, or a limit is reached.

    At least ``min_repeats`` times are measured, unless measuring takes more than ``max_seconds`` or the candidate is
    hopeless. A candidate is hopeless if at least ``hopeless_repeats`` times were measured, and the shortest exceeds
    ``hopeless_factor`` times the best median of all candidates so far.
    """

    target: float = 0.003
    min_repeats: int = 7
    max_repeats: int = 100
    max_seconds: float = 1.0
    hopeless_repeats: int = 3
    hopeless_factor: float = 3.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_repeats <= self.max_repeats:
            raise ValueError(
                f"repeats must satisfy 1 <= min_repeats <= max_repeats, not {self.min_repeats} and {self.max_repeats}"
            )
        if not (self.target > 0 and self.max_seconds > 0):
            raise ValueError(f"target and max_seconds must be positive, not {self.target} and {self.max_seconds}")
        if self.hopeless_repeats < 1 or self.hopeless_factor < 1:
            raise ValueError(
                "hopeless_repeats and hopeless_factor must be at least 1, "
                f"not {self.hopeless_repeats} and {self.hopeless_factor}"
            )

    def done(self, seconds: Sequence[float], elapsed: float) -> bool:
        """Return True if there are enough repeats. ``elapsed`` is the wall-clock time of the measurement in seconds."""
        if not seconds:
            return False
        if elapsed >= self.max_seconds or len(seconds) >= self.max_repeats:
            return True
        return len(seconds) >= self.min_repeats and median_error(seconds) <= self.target

    def hopeless(self, seconds: Sequence[float], best: float | None) -> bool:
        """Return True if the candidate is too slow to continue. ``best`` is the median of the fastest candidate so far.

        The fastest repeat is compared with the limit, because noise makes a kernel slower and hardly ever faster.
        """
        if best is None or len(seconds) < self.hopeless_repeats:
            return False
        return min(seconds) > self.hopeless_factor * best


def unslowed(seconds: Sequence[float], slowed: Sequence[bool]) -> list[float]:
    """Return the times of repeats during which the GPU was not ``slowed`` (throttled).

    If the GPU was slowed during all repeats, all times are returned.
    """
    at_speed = [t for t, slow in zip(seconds, slowed, strict=True) if not slow]
    return at_speed or list(seconds)


@dataclass(frozen=True)
class Ratio:
    """Median ratio of candidate to baseline time, with its confidence interval and the number of pairs."""

    median: float
    low: float
    high: float
    pairs: int

    @classmethod
    def paired(cls, candidate: Sequence[float], baseline: Sequence[float], confidence: float = 0.95) -> Self:
        """Return the median ratio of paired times, one pair per round.

        The interval is computed from the signed ranks of the log-ratios. With fewer than 6 pairs there is no 95%
        interval, and the interval is (0, infinity). Raises ValueError if the lists are empty or differ in length, if a
        time is not positive, or if the confidence is outside (0, 1).
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
        ratios = log_ratios(candidate, baseline)
        interval, median = signed_rank.interval(ratios, confidence), float(np.median(ratios))
        if interval is None:
            return cls(math.exp(median), 0.0, math.inf, len(ratios))
        # for skewed ratios, the tested centre may differ from the median; extend the interval to contain the median
        low, high = min(interval[0], median), max(interval[1], median)
        return cls(math.exp(median), math.exp(low), math.exp(high), len(ratios))


def log_ratios(candidate: Sequence[float], baseline: Sequence[float]) -> FloatArray:
    """Return the logarithm of the ratio of candidate to baseline time for each round.

    Raises ValueError if the lists are empty or differ in length, or a time is not positive.
    """
    if len(candidate) != len(baseline) or not candidate:
        raise ValueError(f"pairs need two lists of the same length, not {len(candidate)} and {len(baseline)}")
    if not all(t > 0 for t in (*candidate, *baseline)):
        raise ValueError("times must be positive")
    ratios: FloatArray = np.log(np.asarray(candidate, float)) - np.log(np.asarray(baseline, float))
    return ratios


class SpeedChange(StrEnum):
    """Result of comparing two times."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    UNCERTAIN = "uncertain"  # the confidence interval contains 1 - tie or 1 + tie, so more rounds are needed


def verdict(ratio: Ratio, tie: float = 0.01) -> SpeedChange:
    """Decide whether the candidate is faster or slower than the baseline. Ratios within ``tie`` of 1 count as equal.

    A result other than UNCERTAIN holds for every ratio in the confidence interval.
    """
    if ratio.high < 1 - tie:
        return SpeedChange.FASTER
    if ratio.low > 1 + tie:
        return SpeedChange.SLOWER
    if ratio.low >= 1 - tie and ratio.high <= 1 + tie:
        return SpeedChange.SAME
    return SpeedChange.UNCERTAIN


def interleaved(entrants: int, rounds: int) -> list[list[int]]:
    """Return the order in which entrants are timed in each round: rotated, and reversed in every other round.

    Clock and temperature change during a round, so each entrant is timed at each position equally often.
    """
    orders = []
    for r in range(rounds):
        start = r // 2 % max(entrants, 1)
        order = [(start + i) % entrants for i in range(entrants)]
        orders.append(order if r % 2 == 0 else order[::-1])
    return orders
