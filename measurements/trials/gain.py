"""Is a tuned kernel faster than the default by more than the noise?"""

from __future__ import annotations

import math
from typing import Literal

from measurements.trials.measurement import Timing
from measurements.trials.near_ties import ERRORS
from measurements.trials.timing_statistics import error_of_median

Word = Literal["default", "tuned", "noise"]
TIE = 0.01  # closer than this counts as equally fast
SAME = (1.0, (1.0, 1.0))  # ratio and interval of two that are one

RatioInterval = tuple[float, tuple[float, float]]


def word_of(ratio: float | None, interval: tuple[float, float] | None) -> Word:
    """Return "tuned" where the gain is beyond the noise, "default" where there is none, "noise" in between.

    Args:
        ratio: The default's time over the tuned one's; None where the default cannot be used.
        interval: Confidence interval of the ratio; None if there is no ratio.
    """
    if ratio is None or interval is None:
        return "tuned"
    if ratio <= 1 + TIE:
        return "default"
    return "tuned" if interval[0] > 1 else "noise"


def ratio_of_medians(default: Timing, tuned: Timing, estimate_noise: float) -> RatioInterval:
    """Return the ratio of two times, and what it may be: (1, (1, 1)) where the default is as fast or faster.

    Args:
        default: Time of the default.
        tuned: Time of the best that was found.
        estimate_noise: Noise of times without repeats, a fraction; that of others follows from their quartiles.
    """
    ratio = default.median / tuned.median
    if ratio <= 1:
        return SAME
    if default.count and tuned.count:
        noise = ERRORS * math.hypot(error_of_median(default), error_of_median(tuned))
        if min(default.count, tuned.count) < 2:
            noise = math.log(ratio)  # one time says nothing of its noise
    else:
        noise = math.log1p(estimate_noise)
    return ratio, (ratio * math.exp(-noise), ratio * math.exp(noise))
