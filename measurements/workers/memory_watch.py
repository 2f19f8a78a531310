"""How much memory a worker and whatever it starts may fill: more of it, and the worker is killed.

A limit of the address space would hold off libraries that reserve much and fill little (PyTorch, thread pools), and is
one for each process. What counts here is what was written to: anonymous and shared memory, and what of it was swapped.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from measurements.workers.worker import Worker

POLL_SECONDS = 0.02  # one gigabyte per second or two are filled at most
_WRITTEN = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)


def written_bytes(pid: int) -> int:
    """Return what a process and all that it started hold in memory of their own; 0 where the system does not say."""
    total, waiting = 0, [pid]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        try:
            total += 1024 * sum(map(int, _WRITTEN.findall((folder / "status").read_text())))
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:  # it has ended, or this is not Linux
            continue
    return total


class MemoryWatch:
    """Within it ``worker`` is killed once it holds more than ``most`` bytes; ``exceeded`` says afterwards whether it
    was."""

    def __init__(self, worker: Worker, most: int) -> None:
        self.exceeded = False
        self._worker, self._most = worker, most
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            pid = self._worker.pid
            if pid is not None and written_bytes(pid) > self._most:
                self.exceeded = True
                self._worker.kill()
                return
