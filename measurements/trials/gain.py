"""Decide whether a tuned kernel is faster than the default by more than the noise."""

from __future__ import annotations

import math
from typing import Literal

from measurements.trials.measurement import Timing
from measurements.trials.near_ties import STANDARD_ERRORS
from measurements.trials.timing_statistics import error_of_median

Word = Literal["default", "tuned", "noise"]
TIE = 0.01  # relative difference below which two times count as equal
SAME = (1.0, (1.0, 1.0))  # ratio and interval of two equal times

RatioInterval = tuple[float, tuple[float, float]]


def word_of(ratio: float | None, interval: tuple[float, float] | None) -> Word:
    """Return "tuned" if the gain exceeds the noise, "default" if there is no gain, and "noise" otherwise.

    Args:
        ratio: Ratio of the default's time to the tuned kernel's time; None if the default cannot be used.
        interval: Confidence interval of the ratio; None if there is no ratio.
    """
    if ratio is None or interval is None:
        return "tuned"
    if ratio <= 1 + TIE:
        return "default"
    return "tuned" if interval[0] > 1 else "noise"


def ratio_of_medians(default: Timing, tuned: Timing, estimate_noise: float) -> RatioInterval:
    """Return the ratio of the default's time to the tuned time, with an interval; SAME if the default is not slower.

    Args:
        default: Time of the default schedule.
        tuned: Time of the best schedule.
        estimate_noise: Relative noise of times without repeats. The noise of repeated times is computed from quartiles.
    """
    ratio = default.median / tuned.median
    if ratio <= 1:
        return SAME
    if default.count and tuned.count:
        noise = STANDARD_ERRORS * math.hypot(error_of_median(default), error_of_median(tuned))
        if min(default.count, tuned.count) < 2:
            # The noise of a single time is unknown. With this noise, the interval starts at 1: there may be no gain.
            noise = math.log(ratio)
    else:
        noise = math.log1p(estimate_noise)
    return ratio, (ratio * math.exp(-noise), ratio * math.exp(noise))
