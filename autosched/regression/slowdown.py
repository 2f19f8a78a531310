"""Statistical tests for a slowdown, from interleaved times.

Four kernels run in every round, in alternating order: the baseline, the candidate, the baseline again, and a control
that does not depend on our changes (the vendor's library, or a plain copy). The second baseline measures the current
noise of this entry on this machine. Differences within the noise are not reported.

To avoid false alarms, a finding must pass five tests:

- The whole confidence interval of its ratio is beyond the limit.
- The lost time in seconds is also beyond a limit.
- It passes the control of the false discovery rate over all entries (Benjamini and Hochberg, J. R. Statist. Soc. B 57,
  1995).
- The control and the second baseline are stable.
- A new process confirms it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.trials import signed_rank, timing_statistics
from measurements.trials.timing_statistics import Ratio, SpeedChange, log_ratios

CONFIDENCE = 0.99  # confidence level of intervals; with 95%, several of a hundred entries would be outside by chance
DISCOVERY_RATE = 0.05  # accepted false discovery rate of the first process
ONE_SIDED = 8  # minimum number of changed entries for testing whether nearly all changed in one direction
MOST = 0.8


@dataclass(frozen=True)
class SlowdownLimits:
    """Limits of an allowed slowdown: ``max_slowdown``, a fraction of the baseline's time, and ``floor``, in seconds.

    An entry is slower if it exceeds both. Raises ValueError for a fraction outside [0, 10) and an invalid floor.
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
    """Seconds of each program, one value per round; ``control`` is empty without a control."""

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

    ``ratio`` is candidate over baseline, ``noise`` the second baseline over the first, ``control`` the control over the
    baseline (None without one). ``limit`` is the minimum slowdown of a finding: the larger of the allowed slowdown and
    the noise. ``p`` is the probability of such times if the slowdown is within the limit. ``moved`` is the reason why
    the times are unreliable, or "".
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
        noise: Relative difference between earlier runs of one program.

    Returns:
        The comparison.

    Raises:
        ValueError: Times that are not positive, or incomplete rounds.
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
    """Return, for each p-value, True if the procedure of Benjamini and Hochberg accepts its finding.

    At most the fraction ``rate`` of accepted findings is expected to be false. ``p_values`` has one value for every
    compared entry, slower or not.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    last = max((rank for rank, i in enumerate(order, 1) if p_values[i] <= rate * rank / len(order)), default=0)
    rejected = set(order[:last])
    return [i in rejected for i in range(len(p_values))]


def moved_between(first: TimeComparison, second: TimeComparison, limits: SlowdownLimits) -> str:
    """Return a reason if the controls of two processes differ, so that their runs cannot be pooled; else "".

    Control and baseline are the same kernels in both processes, so the machine causes a difference.
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
