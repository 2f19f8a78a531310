"""How many schedules are out at a time: asked for, and not yet told.

More of them keep compilers and GPUs busy; fewer let a sampler learn from each before it proposes the next, which
matters most at the start. So a quarter of what has been told may be out, and no more than what keeps the machine busy:
where a GPU measures faster than one compiler compiles, as many as there are compilers, but no more of these than the
GPU and the sampler keep up with. Half of these may be out from the start: a trial is back after a compile, however few
are out, and on recorded spaces eight at a time need hardly more trials than four (``benchmarks.search.search_clock``).
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

MIN_IN_FLIGHT = 4  # out at the start; on recorded spaces this costs no evaluations
MAX_IN_FLIGHT = 16  # where costs are not known
PER_GPU = 8  # of several GPUs, at least
OBSERVED_PER_SLOT = 4  # one more is out for so many told
_REMEMBERED = 32  # costs of each kind


class InFlightLimit:
    """``most`` and ``gpus`` bound what is out where nothing is known of costs, which makes what is proposed independent
    of clocks. With ``compilers`` the costs that are noted decide."""

    def __init__(self, *, most: int = MAX_IN_FLIGHT, gpus: int = 1, compilers: int | None = None) -> None:
        self._most = most
        self._gpus = max(gpus, 1)
        self._compilers = compilers
        self._seconds: dict[str, deque[float]] = {
            kind: deque(maxlen=_REMEMBERED) for kind in ("compile", "measure", "propose")
        }

    def size(self, told: int) -> int:
        """How many schedules may be out, after so many have been told."""
        busy = self._busy()
        least = max(MIN_IN_FLIGHT * self._gpus, 0 if self._compilers is None else -(-busy // 2))
        return max(min(busy, max(least, told // OBSERVED_PER_SLOT)), 1)

    @property
    def in_order(self) -> bool:
        """Whether results are taken in the order of proposals, whichever is there first."""
        return self._compilers is None

    def note(self, kind: str, seconds: Sequence[float]) -> None:
        """Note what compiling, measuring or proposing of single candidates cost."""
        self._seconds[kind].extend(seconds)

    def _busy(self) -> int:
        """How many at a time keep everything busy."""
        several = PER_GPU * self._gpus if self._gpus > 1 else 1
        if self._compilers is None:
            return max(self._most, several)
        compiling, behind = self._cost("compile"), max(self._cost("measure") / self._gpus, self._cost("propose"))
        wanted = self._compilers
        if self._seconds["compile"] and behind > 0:
            wanted = min(wanted, math.ceil(compiling / behind))
        return max(wanted, several)

    def _cost(self, kind: str) -> float:
        return statistics.median(self._seconds[kind] or [0.0])
