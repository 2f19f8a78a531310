"""Delay host threads, to expose missing synchronisation between threads.

Synchronisation between host threads is not tracked. If one thread waits for the device, all threads are assumed to have
waited.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

_MOST_OF_SITE, _MOST = 2, 20  # maximum number of delays per source line, and in total
_SECONDS, _STEP = 0.1, 1e-3  # duration of a delay, and interval at which other threads are checked, in seconds


class HostThreads:
    """Delays the return from waits on the host, so that other threads can act before the waiting thread continues."""

    def __init__(self) -> None:
        self._actions: Counter[int] = Counter()  # number of recorded memory accesses per thread
        self._delays: Counter[tuple[str, int]] = Counter()

    def note_action(self) -> None:
        """Record that the running thread has used memory."""
        self._actions[threading.get_ident()] += 1

    def yield_to_other_threads(self, site: tuple[str, int]) -> None:
        """Let other threads act before the wait at this line returns. Return at once if this is the only thread."""
        if threading.active_count() < 2 or self._delays[site] >= _MOST_OF_SITE or self._delays.total() >= _MOST:
            return
        self._delays[site] += 1
        before, end = self._num_events_of_others(), time.monotonic() + _SECONDS
        while self._num_events_of_others() == before and time.monotonic() < end:
            time.sleep(_STEP)

    def _num_events_of_others(self) -> int:
        return self._actions.total() - self._actions[threading.get_ident()]
