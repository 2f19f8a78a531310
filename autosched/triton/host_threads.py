"""Delays of host threads that expose missing synchronisation between them.

Synchronisation between host threads is not tracked, so a wait of one thread for the device counts for all threads.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

_MOST_OF_SITE, _MOST = 2, 20  # maximum delays of one line, and of all lines
_SECONDS, _STEP = 0.1, 1e-3  # length of each delay, and interval between checks, in seconds


class HostThreads:
    """Delays the return of host waits, so that threads that do not wait run ahead of it."""

    def __init__(self) -> None:
        self._actions: Counter[int] = Counter()  # number of actions by thread
        self._delays: Counter[tuple[str, int]] = Counter()

    def note_action(self) -> None:
        """Record that the running thread has used memory."""
        self._actions[threading.get_ident()] += 1

    def yield_to_other_threads(self, site: tuple[str, int]) -> None:
        """Let other threads act before the wait at this line returns. Returns at once if there are none."""
        if threading.active_count() < 2 or self._delays[site] >= _MOST_OF_SITE or self._delays.total() >= _MOST:
            return
        self._delays[site] += 1
        before, end = self._num_events_of_others(), time.monotonic() + _SECONDS
        while self._num_events_of_others() == before and time.monotonic() < end:
            time.sleep(_STEP)

    def _num_events_of_others(self) -> int:
        return self._actions.total() - self._actions[threading.get_ident()]
