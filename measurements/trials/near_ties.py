"""Which of several programs that were timed in turns wins, where near ties are the rule.

Of those within ``tie`` of the fastest, the simplest wins: which one is fastest is a lottery among equals, which one is
simplest is not. What remains of the lottery is at the edge of the tie, where a simple program is counted in or out, so
that is where more rounds must go.

How far one is behind another is the trimmed mean of the log-ratios of their rounds, with the error that Yuen gives it
(K. K. Yuen, Biometrika 61, 1974). An outlier moves it as little as a median, and where a GPU changes between two clocks
it converges like a mean, while medians and signed ranks jump from one clock to the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measurements.trials.timing_statistics import log_ratios
from search_spaces.arrays import FloatArray

TRIM = 0.1  # the share that is left out at either end
ERRORS = 3.0  # standard errors to either side: rounds are added by what they show, so 2 would err too often
FEWEST = 6  # rounds that allow a claim
REFERENCES = 4  # of those that may be the fastest, which go on being timed because the edge is measured from it


@dataclass(frozen=True)
class Behind:
    """The logarithm of one program's time over that of the fastest, and an interval of ERRORS for it."""

    centre: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], fastest: Sequence[float]) -> Behind:
        """Of times taken in pairs. Raises ValueError for unequal or empty lists and for times that are not positive."""
        ratios = log_ratios(times, fastest)
        centre, error = trimmed_mean(ratios), ERRORS * _error(ratios)
        return cls(centre, centre - error, centre + error)


@dataclass(frozen=True)
class WinnerChoice:
    """``winner`` is a position, and so are ``fastest`` and those of the tie set, ``tied``.

    ``behind`` has every one against the fastest. ``undecided`` are those that may or may not belong to the tie set, and
    would win if they did, and those that may be faster than it; ``clear`` says that there are none. ``contenders`` are
    all that further rounds need.
    """

    winner: int
    fastest: int
    behind: tuple[Behind, ...]
    tied: tuple[int, ...]
    undecided: tuple[int, ...]
    contenders: tuple[int, ...]

    @property
    def clear(self) -> bool:
        return not self.undecided


def choose(
    times: Sequence[Sequence[float]], complexity: Sequence[float], tie: float = 0.01, incumbent: int | None = None
) -> WinnerChoice:
    """Return the winner of entrants timed in turns: the incumbent, else the simplest, of those as fast as the fastest.

    The incumbent stays until it is shown to be slower by more than twice ``tie``, as else one near the edge would come
    and go from run to run.

    Args:
        times: ``times[i]`` are the times of entrant i, one per round, positive.
        complexity: By entrant; the lowest is the simplest.
        tie: As fast is whoever is behind by this part of the time at most.
        incumbent: The position of the one that has won before; None where none has.

    Returns:
        The winner's position, and how far each is behind.

    Raises:
        ValueError: No entrants, lists of different lengths, times that are not positive, or an incumbent that is not
            there.
    """
    if not times or len(times) != len(complexity):
        raise ValueError(f"every entrant needs times and a complexity, got {len(times)} and {len(complexity)}")
    if incumbent is not None and not 0 <= incumbent < len(times):
        raise ValueError(f"the incumbent must be an entrant, there is none at position {incumbent}")
    fastest = _fastest(times)
    behind = tuple(Behind.of(t, times[fastest]) for t in times)
    edge, places = math.log1p(tie), range(len(times))

    def simplicity(i: int) -> tuple[float, bool]:
        return complexity[i], i != fastest

    tied = tuple(i for i in places if behind[i].centre <= edge)
    sure = min((i for i in places if i == fastest or behind[i].high <= edge), key=simplicity)
    simpler = [i for i in places if i != fastest and simplicity(i) < simplicity(sure)]
    faster = {i for i in places if behind[i].low < -edge}
    undecided = faster.union(i for i in simpler if behind[i].low <= edge < behind[i].high)
    winner = min(tied, key=simplicity)
    kept: list[int] = []
    if incumbent is not None:
        far = math.log1p(2 * tie)
        kept = [incumbent]
        if behind[incumbent].high <= far or incumbent == fastest:
            undecided = faster
        elif behind[incumbent].low <= far:
            undecided = {*undecided, incumbent}
        if behind[incumbent].low <= far:
            winner = incumbent
    near = sorted((i for i in places if behind[i].low <= 0), key=lambda i: behind[i].centre)[:REFERENCES]
    contenders = sorted({fastest, winner, sure, *near, *undecided, *kept})
    return WinnerChoice(winner, fastest, behind, tied, tuple(sorted(undecided)), tuple(contenders))


def _fastest(times: Sequence[Sequence[float]]) -> int:
    """By what each is behind the median entrant of its rounds: what a round did to all of them does not count."""
    if any(len(t) != len(times[0]) for t in times):
        raise ValueError(f"entrants need as many times as each other, not {', '.join(str(len(t)) for t in times)}")
    behind = np.stack([log_ratios(t, [1.0] * len(t)) for t in times])
    behind -= np.median(behind, axis=0)
    return min(range(len(times)), key=lambda i: trimmed_mean(behind[i]))


def trimmed_mean(values: FloatArray) -> float:
    """Return the mean of what is left of ``values`` without the share TRIM at either end."""
    cut = int(TRIM * len(values))
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def _error(values: FloatArray) -> float:
    """Return the standard error of the trimmed mean, from the deviation of the winsorized values."""
    n, cut = len(values), int(TRIM * len(values))
    if n < FEWEST:
        return math.inf
    ordered = np.sort(values)
    winsorized = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    return float(np.std(winsorized, ddof=1)) / ((1 - 2 * cut / n) * math.sqrt(n))
