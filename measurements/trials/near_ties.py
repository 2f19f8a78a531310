"""Select the winner among kernels that were timed in alternation and may have nearly equal times.

The winner is the simplest of the kernels that are within ``tie`` of the fastest kernel. Among nearly equal kernels,
noise decides which kernel is fastest, but the simplest kernel is always the same. If a kernel's distance to the fastest
is close to ``tie``, further rounds are needed.

The distance of two kernels is the trimmed mean of the log-ratios of their times per round, with Yuen's error estimate
(K. K. Yuen, Biometrika 61, 1974). The trimmed mean is as robust to outliers as a median. If a GPU alternates between
two clocks, the trimmed mean converges like a mean, while medians and signed ranks jump between the values of the two
clocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measurements.trials.timing_statistics import log_ratios
from search_spaces.arrays import FloatArray

TRIM = 0.1  # fraction of the values to trim at each end
# half width of the interval in standard errors; with 2, decisions would be wrong too often, because rounds are added
# until there is a decision
STANDARD_ERRORS = 3.0
MIN_ROUNDS = 6  # minimum rounds for a decision
# this many of the fastest kernels are timed in all rounds, because distances are relative to the fastest kernel
REFERENCES = 4


@dataclass(frozen=True)
class Slowdown:
    """Logarithm of the ratio of a kernel's time to the fastest kernel's time, with an interval of STANDARD_ERRORS."""

    centre: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], fastest: Sequence[float]) -> Slowdown:
        """Return the slowdown from paired times.

        Raises ValueError if the lists are empty or differ in length, or a time is not positive.
        """
        ratios = log_ratios(times, fastest)
        centre, error = trimmed_mean(ratios), STANDARD_ERRORS * _error(ratios)
        return cls(centre, centre - error, centre + error)


@dataclass(frozen=True)
class WinnerChoice:
    """Result of the selection. Entrants are identified by their index.

    Attributes:
        winner: Selected entrant.
        fastest: Entrant with the shortest time.
        slowdowns: Slowdown of each entrant relative to the fastest.
        tied: Entrants that are about as fast as ``fastest``: the measured difference counts as a tie.
        undecided: Entrants that may still win, because they may be faster than ``fastest``, or may be tied with it.
        contenders: Entrants to time in further rounds.
    """

    winner: int
    fastest: int
    slowdowns: tuple[Slowdown, ...]
    tied: tuple[int, ...]
    undecided: tuple[int, ...]
    contenders: tuple[int, ...]

    @property
    def clear(self) -> bool:
        """True if the winner is certain, because no entrant is undecided."""
        return not self.undecided


def choose(
    times: Sequence[Sequence[float]], complexity: Sequence[float], tie: float = 0.01, incumbent: int | None = None
) -> WinnerChoice:
    """Select the winner: the incumbent unless it is too slow, otherwise the simplest entrant tied with the fastest.

    The incumbent is too slow if it is slower than the fastest by more than twice ``tie``, with statistical
    significance. Without this rule, the winner would change randomly from run to run.

    Args:
        times: ``times[i]`` are the positive times of entrant i, one per round.
        complexity: Complexity of each entrant; the lowest is the simplest.
        tie: Largest relative time difference that counts as a tie.
        incumbent: Index of the previous winner, or None.

    Returns:
        The winner, all slowdowns, and the entrants that need further rounds.

    Raises:
        ValueError: There are no entrants, the lists differ in length, a time is not positive, or the incumbent is
            unknown.
    """
    if not times or len(times) != len(complexity):
        raise ValueError(f"every entrant needs times and a complexity, got {len(times)} and {len(complexity)}")
    if incumbent is not None and not 0 <= incumbent < len(times):
        raise ValueError(f"the incumbent {incumbent} is not the index of an entrant")
    fastest = _fastest(times)
    slowdowns = tuple(Slowdown.of(t, times[fastest]) for t in times)
    edge, ranks = math.log1p(tie), range(len(times))

    def simplicity(i: int) -> tuple[float, bool]:
        return complexity[i], i != fastest

    tied = tuple(i for i in ranks if slowdowns[i].centre <= edge)
    sure = min((i for i in ranks if i == fastest or slowdowns[i].high <= edge), key=simplicity)
    simpler = [i for i in ranks if i != fastest and simplicity(i) < simplicity(sure)]
    faster = {i for i in ranks if slowdowns[i].low < -edge}
    undecided = faster.union(i for i in simpler if slowdowns[i].low <= edge < slowdowns[i].high)
    winner = min(tied, key=simplicity)
    candidates: list[int] = []
    if incumbent is not None:
        far = math.log1p(2 * tie)
        candidates = [incumbent]
        if slowdowns[incumbent].high <= far or incumbent == fastest:
            undecided = faster
        elif slowdowns[incumbent].low <= far:
            undecided = {*undecided, incumbent}
        if slowdowns[incumbent].low <= far:
            winner = incumbent
    near = sorted((i for i in ranks if slowdowns[i].low <= 0), key=lambda i: slowdowns[i].centre)[:REFERENCES]
    contenders = sorted({fastest, winner, sure, *near, *undecided, *candidates})
    return WinnerChoice(winner, fastest, slowdowns, tied, tuple(sorted(undecided)), tuple(contenders))


def plausible(times: Sequence[Sequence[float]], tie: float = 0.01) -> list[int]:
    """Return the entrants that may be within ``tie`` of the fastest, judged after a few rounds.

    A single entrant has too few times to estimate its noise, so the noise is estimated from all entrants together.

    Args:
        times: ``times[i]`` are the positive times of entrant i, one per round.
        tie: Largest relative time difference that counts as a tie.

    Returns:
        Indices of these entrants; all indices if there are fewer than two rounds or entrants.

    Raises:
        ValueError: The lists differ in length, or a time is not positive.
    """
    entrants, rounds = len(times), len(times[0]) if times else 0
    if entrants < 2 or rounds < 2:
        return list(range(entrants))
    fastest = _fastest(times)
    ratios = np.stack([log_ratios(t, [1.0] * rounds) for t in times])
    ratios -= np.median(ratios, axis=0)
    centres = ratios.mean(axis=1)
    residuals = ratios - centres[:, np.newaxis]
    residuals -= np.median(residuals, axis=0)
    # the median is robust to outliers
    deviation = 1.4826 * float(np.median(np.abs(residuals))) * math.sqrt(rounds / (rounds - 1))
    bound = centres[fastest] + math.log1p(tie) + STANDARD_ERRORS * deviation * math.sqrt(2 / rounds)
    return [i for i in range(entrants) if centres[i] <= bound]


def _fastest(times: Sequence[Sequence[float]]) -> int:
    """Return the index of the fastest entrant.

    Times are divided by the median of their round, which cancels effects on the whole round.
    """
    if any(len(t) != len(times[0]) for t in times):
        raise ValueError(f"all entrants need the same number of times, not {', '.join(str(len(t)) for t in times)}")
    ratios = np.stack([log_ratios(t, [1.0] * len(t)) for t in times])
    ratios -= np.median(ratios, axis=0)
    return min(range(len(times)), key=lambda i: trimmed_mean(ratios[i]))


def trimmed_mean(values: FloatArray) -> float:
    """Return the mean of ``values`` without the lowest and the highest values (a fraction TRIM at each end)."""
    cut = int(TRIM * len(values))
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def _error(values: FloatArray) -> float:
    """Return the standard error of the trimmed mean, from the deviation of the winsorized values."""
    n, cut = len(values), int(TRIM * len(values))
    if n < MIN_ROUNDS:
        return math.inf
    ordered = np.sort(values)
    winsorized = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    return float(np.std(winsorized, ddof=1)) / ((1 - 2 * cut / n) * math.sqrt(n))
