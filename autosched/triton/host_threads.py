"""Threads of a program's host.

A wait of one thread counts for all once it returns, because it is unknown how threads wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

_MOST_OF_SITE, _MOST = 2, 20  # delays of one line, and of all
_SECONDS, _STEP = 0.1, 1e-3  # length of each delay, and interval between checks


class HostThreads:
    """Delays waits of the host while other threads run, so that these do what is not ordered behind the wait."""

    def __init__(self) -> None:
        self._actions: Counter[int] = Counter()  # by thread
        self._delays: Counter[tuple[str, int]] = Counter()

    def note_action(self) -> None:
        """Take an action of the running thread: it has used memory."""
        self._actions[threading.get_ident()] += 1

    def let_others_act(self, site: tuple[str, int]) -> None:
        """Let other threads act before a wait at a line of the program returns. Without others this takes no time."""
        if threading.active_count() < 2 or self._delays[site] >= _MOST_OF_SITE or self._delays.total() >= _MOST:
            return
        self._delays[site] += 1
        before, end = self._by_others(), time.monotonic() + _SECONDS
        while self._by_others() == before and time.monotonic() < end:
            time.sleep(_STEP)

    def _by_others(self) -> int:
        return self._actions.total() - self._actions[threading.get_ident()]
