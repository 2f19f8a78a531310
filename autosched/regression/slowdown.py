"""Statistical tests for a slowdown, by interleaved times of several kernels.

Four kernels run in every round, in alternating order: the baseline, the candidate, the baseline again, and a control
that does not depend on changes of autosched (the vendor's library, or a plain memory copy). Differences between the two
runs of the baseline are the current noise of this entry on this machine. Slowdowns within the noise are not reported.

To avoid false alarms, a slowdown must pass five tests:

- The whole confidence interval of the ratio is above the limit.
- The additional time in seconds is also above a limit.
- The slowdown remains significant when the false discovery rate over all entries is controlled (Benjamini and Hochberg,
J. R. Statist. Soc. B 57, 1995).
- The times of the control, and of the two runs of the baseline, are stable.
- A second process confirms the slowdown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.trials import signed_rank, timing_statistics
from measurements.trials.timing_statistics import Ratio, SpeedChange, log_ratios

CONFIDENCE = 0.99  # confidence level of intervals; with 95%, several of a hundred entries would seem slower by chance
DISCOVERY_RATE = 0.05  # accepted false discovery rate of the first process
ONE_SIDED = 8  # minimum number of compared entries for ``one_sided``, which is False for fewer entries
MOST = 0.8


@dataclass(frozen=True)
class SlowdownLimits:
    """Allowed slowdown: ``max_slowdown`` as a fraction of the baseline's time, and ``floor`` in seconds.

    An entry is slower if its slowdown exceeds both limits. Raises ValueError for a fraction outside [0, 10) and for an
    invalid floor.
    """

    max_slowdown: float = 0.01
    floor: float = 0.5e-6

    def __post_init__(self) -> None:
        if not 0 <= self.max_slowdown < 10:
            raise ValueError(
                f"max_slowdown must be a fraction of the time, such as 0.03 for 3%, got {self.max_slowdown}"
            )
        if not 0 <= self.floor < 1:
            raise ValueError(f"floor must be a time in seconds, such as 5e-7, got {self.floor}")


@dataclass(frozen=True)
class Times:
    """Seconds of each kernel, one value per round. ``control`` is empty if there is no control."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    again: tuple[float, ...]
    control: tuple[float, ...] = ()

    def __add__(self, other: Times) -> Times:
        return Times(
            self.baseline + other.baseline,
            self.candidate + other.candidate,
            self.again + other.again,
            self.control + other.control,
        )


@dataclass(frozen=True)
class TimeComparison:
    """Comparison of the times of one entry.

    Attributes:
        verdict: Whether the candidate is faster or slower than the baseline.
        ratio: Ratio of the candidate's time to the baseline's.
        noise: Ratio of the second run of the baseline to the first.
        control: Ratio of the control's time to the baseline's; None without a control.
        limit: Slowdown above which an entry is slower: the larger of the allowed slowdown and the noise.
        p: Probability of such times if the slowdown is within the limit.
        lost_seconds: Seconds by which the candidate is slower than the baseline.
        rounds: Number of rounds.
        moved: Why the times are unreliable; "" if they are reliable.
    """

    verdict: SpeedChange
    ratio: Ratio
    noise: Ratio
    control: Ratio | None
    limit: float
    p: float
    lost_seconds: float
    rounds: int
    moved: str = ""

    @property
    def decided(self) -> bool:
        """True if more rounds cannot change the verdict."""
        return self.verdict is not SpeedChange.UNCERTAIN and not self.moved


def compare(times: Times, limits: SlowdownLimits, noise: float = 0.0) -> TimeComparison:
    """Compare one entry by its ``times``.

    Args:
        times: Times of all rounds.
        limits: Allowed slowdown.
        noise: Relative difference between earlier runs of the same kernel.

    Returns:
        The comparison.

    Raises:
        ValueError: A time is not positive, or rounds are incomplete.
    """
    ratio = Ratio.paired(times.candidate, times.baseline, CONFIDENCE)
    repeat = Ratio.paired(times.again, times.baseline, CONFIDENCE)
    limit = max(limits.max_slowdown, noise, repeat.high - 1, 1 / repeat.low - 1 if repeat.low else math.inf)
    lost = statistics.median(times.baseline) * (ratio.median - 1)
    control = Ratio.paired(times.control, times.baseline, CONFIDENCE) if times.control else None
    if math.isinf(limit):  # too few rounds to decide
        return TimeComparison(SpeedChange.UNCERTAIN, ratio, repeat, control, limit, 1.0, lost, len(times.baseline))
    verdict = timing_statistics.verdict(ratio, limit)
    if verdict is SpeedChange.SLOWER and lost <= limits.floor:
        verdict = SpeedChange.SAME
    p = signed_rank.p_value(log_ratios(times.candidate, times.baseline), math.log1p(limit))
    return TimeComparison(
        verdict, ratio, repeat, control, limit, p, lost, len(times.baseline), _moved(times, repeat, limits)
    )


def discoveries(p_values: Sequence[float], rate: float = DISCOVERY_RATE) -> list[bool]:
    """Return True for each p-value that is significant by the procedure of Benjamini and Hochberg.

    At most the fraction ``rate`` of the significant entries is expected to be false. ``p_values`` has one value for
    every compared entry, including entries that are not slower.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    last = max((rank for rank, i in enumerate(order, 1) if p_values[i] <= rate * rank / len(order)), default=0)
    rejected = set(order[:last])
    return [i in rejected for i in range(len(p_values))]


def moved_between(first: TimeComparison, second: TimeComparison, limits: SlowdownLimits) -> str:
    """Return the reason why the times of two processes cannot be pooled; "" if they can.

    The control and the baseline are the same kernels in both processes. If the control's times relative to the baseline
    differ between the processes, the machine must be the cause.
    """
    if first.control is None or second.control is None:
        return ""
    apart = _apart(first.control, second.control)
    if apart <= max(limits.max_slowdown, first.limit, second.limit):
        return ""
    return f"the control's time changed by {apart:.1%} between two processes"


def one_sided(verdicts: Sequence[SpeedChange]) -> bool:
    """Return True if nearly all entries changed in one direction, which suggests a cause outside of the kernels."""
    if len(verdicts) < ONE_SIDED:
        return False
    slower, faster = (verdicts.count(v) for v in (SpeedChange.SLOWER, SpeedChange.FASTER))
    return min(slower, faster) == 0 and max(slower, faster) >= MOST * len(verdicts)


def _moved(times: Times, repeat: Ratio, limits: SlowdownLimits) -> str:
    if repeat.low > 1 + limits.max_slowdown or repeat.high < 1 - limits.max_slowdown:
        return f"two runs of the baseline differ by {abs(repeat.median - 1):.1%}"
    half = len(times.control) // 2
    if not half:
        return ""
    early, late = (
        Ratio.paired(times.control[part], times.baseline[part], CONFIDENCE)
        for part in (slice(None, half), slice(half, None))
    )
    apart = _apart(early, late)
    return f"the control's time changed by {apart:.1%} during the run" if apart > limits.max_slowdown else ""


def _apart(one: Ratio, other: Ratio) -> float:
    """Return the gap between the intervals of two ratios, as a fraction; 0 if they overlap."""
    low, high = max(one.low, other.low), min(one.high, other.high)
    return low / high - 1 if low > high > 0 else 0.0
