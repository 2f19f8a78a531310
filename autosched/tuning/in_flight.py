"""Limit of the trials in flight, which are proposed but not yet reported.

A high limit keeps compilers and GPUs busy. A low limit lets a sampler learn from each trial before it proposes the
next, which matters most at the start. Therefore a quarter of the reported trials may be in flight, but no more than
keep the machine busy. If a GPU measures faster than one compiler compiles, the limit is the number of compilers that
the GPU and the sampler keep up with. Half of it applies from the start: a trial takes at least one compilation, and on
recorded spaces eight concurrent trials need hardly more trials than four (``benchmarks.search.search_clock``).
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

MIN_IN_FLIGHT = 4  # at the start; on recorded spaces this costs no evaluations
MAX_IN_FLIGHT = 16  # if costs are unknown
PER_GPU = 8  # minimum for several GPUs
OBSERVED_PER_SLOT = 4  # reported trials per additional trial in flight
_REMEMBERED = 32  # costs of each kind


class InFlightLimit:
    """Limit of the trials in flight.

    Args:
        most: Limit if costs are not recorded, which makes proposals independent of clocks.
        gpus: Number of GPUs that measure.
        compilers: Number of compilers for a limit from recorded costs. Default: costs are not recorded.
    """

    def __init__(self, *, most: int = MAX_IN_FLIGHT, gpus: int = 1, compilers: int | None = None) -> None:
        self._most = most
        self._gpus = max(gpus, 1)
        self._compilers = compilers
        self._seconds: dict[str, deque[float]] = {
            kind: deque(maxlen=_REMEMBERED) for kind in ("compile", "measure", "propose")
        }

    def size(self, num_reported: int) -> int:
        """Return the number of trials that may be in flight after ``num_reported`` were reported."""
        busy = self._busy()
        least = max(MIN_IN_FLIGHT * self._gpus, 0 if self._compilers is None else -(-busy // 2))
        return max(min(busy, max(least, num_reported // OBSERVED_PER_SLOT)), 1)

    @property
    def in_order(self) -> bool:
        """True if results are processed in the order of proposals, regardless of which completes first."""
        return self._compilers is None

    def note(self, kind: str, seconds: Sequence[float]) -> None:
        """Record the cost of a candidate: "compile", "measure" or "propose", in seconds."""
        self._seconds[kind].extend(seconds)

    def _busy(self) -> int:
        """Return the number of concurrent trials that keeps everything busy."""
        several = PER_GPU * self._gpus if self._gpus > 1 else 1
        if self._compilers is None:
            return max(self._most, several)
        compiling, following = self._cost("compile"), max(self._cost("measure") / self._gpus, self._cost("propose"))
        wanted = self._compilers
        if self._seconds["compile"] and following > 0:
            wanted = min(wanted, math.ceil(compiling / following))
        return max(wanted, several)

    def _cost(self, kind: str) -> float:
        return statistics.median(self._seconds[kind] or [0.0])
