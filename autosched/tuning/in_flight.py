"""How many trials are in flight at a time: proposed, and not yet reported.

More of them keep compilers and GPUs busy; fewer let a sampler learn from each before it proposes the next, which
matters most at the start. So a quarter of the reported trials may be in flight, and no more than keep the machine busy:
where a GPU measures faster than one compiler compiles, as many as there are compilers, but no more of these than the
GPU and the sampler keep up with. Half of these may be in flight from the start: a trial takes at least a compile, and
on recorded spaces eight at a time need hardly more trials than four (``benchmarks.search.search_clock``).
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

MIN_IN_FLIGHT = 4  # at the start; on recorded spaces this costs no evaluations
MAX_IN_FLIGHT = 16  # where costs are unknown
PER_GPU = 8  # of several GPUs, at least
OBSERVED_PER_SLOT = 4  # reported trials for one more in flight
_REMEMBERED = 32  # costs of each kind


class InFlightLimit:
    """Limit of the trials in flight.

    Args:
        most: Limit where costs are not noted, which makes proposals independent of clocks.
        gpus: Number of GPUs that measure.
        compilers: Number of compilers, with which the noted costs decide. Default: costs are not noted.
    """

    def __init__(self, *, most: int = MAX_IN_FLIGHT, gpus: int = 1, compilers: int | None = None) -> None:
        self._most = most
        self._gpus = max(gpus, 1)
        self._compilers = compilers
        self._seconds: dict[str, deque[float]] = {
            kind: deque(maxlen=_REMEMBERED) for kind in ("compile", "measure", "propose")
        }

    def size(self, num_reported: int) -> int:
        """Return how many trials may be in flight after ``num_reported`` were reported."""
        busy = self._busy()
        least = max(MIN_IN_FLIGHT * self._gpus, 0 if self._compilers is None else -(-busy // 2))
        return max(min(busy, max(least, num_reported // OBSERVED_PER_SLOT)), 1)

    @property
    def in_order(self) -> bool:
        """Whether results are taken in the order of proposals, whichever completes first."""
        return self._compilers is None

    def note(self, kind: str, seconds: Sequence[float]) -> None:
        """Note the cost of single candidates: "compile", "measure" or "propose", in seconds."""
        self._seconds[kind].extend(seconds)

    def _busy(self) -> int:
        """Return how many trials at a time keep everything busy."""
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
