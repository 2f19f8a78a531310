"""Limit of the number of trials in flight, which were proposed but not yet reported to the sampler.

A high limit keeps compilers and GPUs busy. A low limit lets a sampler learn from each trial before it proposes the
next, which matters most at the start. The two cases of the limit are:

- If candidates are measured, the limit is the number of trials that keeps compilers and GPUs busy. This number is
  computed from recent durations of compiling, measuring and proposing. Trials whose module is already compiled need no
  compiler, so the limit grows with the share of such trials. If a sampler proposes in batches, the limit is larger by
  one batch minus one trial.
- Otherwise, the limit is a quarter of the number of reported trials, with a fixed minimum and maximum.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

# initial limit; with it, searches of recorded spaces need no more trials than searches with one trial in flight
MIN_IN_FLIGHT = 4
MAX_IN_FLIGHT = 16  # limit while the durations of compiling and measuring are unknown
PER_GPU = 8  # minimum number of trials in flight per GPU, if candidates are measured on several GPUs
OBSERVED_PER_SLOT = 4  # number of reported trials per trial in flight
_REMEMBERED = 32  # number of recent durations of each step that are averaged


class InFlightLimit:
    """Limit of the trials in flight.

    Args:
        most: Fixed limit, used if ``compilers`` is None. Proposals then do not depend on how long compiling and
            measuring take.
        gpus: Number of GPUs that measure.
        compilers: Number of compilers. The limit is then computed from recorded durations. None: durations are not
            recorded.
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
        least = MIN_IN_FLIGHT * self._gpus if self._compilers is None else busy
        return max(min(busy, max(least, num_reported // OBSERVED_PER_SLOT)), 1)

    def free_slots(self, num_reported: int, in_flight: int, batch: int) -> tuple[int, int]:
        """Return how many trials may be proposed now, and the minimum number for which the sampler is called.

        Args:
            num_reported: Trials reported so far.
            in_flight: Trials that are proposed but not yet reported.
            batch: Number of proposals that the sampler can compute in about the time of a single proposal.

        Returns:
            The number of trials that may be proposed, and the minimum. While the number is below the minimum, the
            sampler is not called.
        """
        size = self.size(num_reported)
        if self._compilers is None:
            return size - in_flight, min(batch, math.ceil(size / 2))
        return size + batch - 1 - in_flight, batch

    @property
    def in_order(self) -> bool:
        """True if results are processed in the order of proposals, regardless of which completes first."""
        return self._compilers is None

    def note(self, kind: str, seconds: Sequence[float]) -> None:
        """Record how long one step of a candidate took.

        Args:
            kind: The step: "compile", "measure" or "propose".
            seconds: Duration in seconds; 0 for "compile" if the candidate's module is already compiled.
        """
        self._seconds[kind].extend(seconds)

    def _busy(self) -> int:
        """Return the number of trials in flight that keeps compilers and GPUs busy."""
        several = PER_GPU * self._gpus if self._gpus > 1 else 1
        if self._compilers is None:
            return max(self._most, several)
        following = max(self._cost("measure") / self._gpus, self._cost("propose"))
        compiled = [seconds for seconds in self._seconds["compile"] if seconds > 0]
        slots = self._compilers
        if compiled:
            slots = math.ceil(slots * len(self._seconds["compile"]) / len(compiled))
        if self._seconds["compile"] and following > 0:
            slots = min(slots, math.ceil(statistics.median(compiled or [0.0]) / following))
        return max(slots, several)

    def _cost(self, kind: str) -> float:
        return statistics.median(self._seconds[kind] or [0.0])
