"""What a worker and whatever it starts may take of memory and of the CPU: more of either, and the worker is killed.

Time is that of the CPU, because a busy machine makes every process slow and no process wrong. Behind it stands a limit
of the clock, for a worker that waits instead of working.

A limit of the address space would hold off libraries that reserve much and fill little (PyTorch, thread pools), and is
one for each process. What counts here is what was written to: anonymous and shared memory, and what of it was swapped.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from measurements.workers.messages import Buffer, Message
from measurements.workers.transport import NO_BLOBS, WorkerDied, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker

POLL_SECONDS = 0.005  # between two looks at memory: a core fills up to ten megabytes meanwhile
_TIME_POLL_SECONDS = 0.05  # where only time is limited
WALL_CLOCK_TIMES = 10.0  # seconds of the clock for each of the CPU: a process of a busy machine gets a tenth of a core
_WRITTEN = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)


def written_bytes(pid: int) -> int:
    """Return what a process and all that it started hold in memory of their own; 0 where the system does not say."""
    return 1024 * sum(sum(map(int, _WRITTEN.findall(text))) for text in _family(pid, "status"))


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all that it started, including those that have ended.

    0 if the system does not tell.
    """
    # The fields behind the name, which may hold anything: utime, stime, cutime and cstime are the 14th to 17th of all.
    ticks = sum(sum(map(int, text.rpartition(")")[2].split()[11:15])) for text in _family(pid, "stat"))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _family(pid: int, file: str) -> Iterator[str]:
    """Yield what is in ``file`` below /proc of a process and of all that it started."""
    waiting = [pid]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        try:
            yield (folder / file).read_text(errors="replace")  # a process may name itself by any bytes
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:  # it has ended, or this is not Linux
            continue


class WorkerLimitExceeded(Exception):
    """A worker was ended at a limit: "time" (of the CPU), "memory", or "wall clock" where it waited for too long."""

    def __init__(self, what: Literal["time", "memory", "wall clock"]) -> None:
        super().__init__(what)
        self.what = what


def request_within(
    worker: Worker,
    payload: Mapping[str, Any],
    blobs: Mapping[str, Buffer] = NO_BLOBS,
    *,
    seconds: float,
    memory: float = math.inf,
) -> Message:
    """Return the answer of a worker within ``seconds`` of CPU time and WALL_CLOCK_TIMES as many of the clock.

    Args:
        worker: Is started if it does not run, which does not count towards the limits.
        payload: As for ``Worker.request``.
        blobs: As for ``Worker.request``.
        seconds: Limit of the CPU seconds of the worker and its children.
        memory: Limit of their memory in bytes.

    Returns:
        The answer, as from ``Worker.request``.

    Raises:
        WorkerLimitExceeded: The worker has been killed.
        WorkerError: As for ``Worker.request``, except WorkerTimeout.
    """
    worker.start()
    watch = ResourceWatch(worker, memory, seconds)
    try:
        with watch:
            return worker.request(payload, WALL_CLOCK_TIMES * seconds, blobs)
    except WorkerTimeout:
        raise WorkerLimitExceeded("wall clock") from None
    except (WorkerDied, WorkerFailed):
        if watch.exceeded:
            raise WorkerLimitExceeded(watch.exceeded) from None
        raise


class ResourceWatch:
    """Context that kills ``worker`` once it exceeds ``memory`` bytes, or ``seconds`` of CPU time since entry.

    Afterwards ``exceeded`` says which of the two it was, "" for neither.
    """

    def __init__(self, worker: Worker, memory: float, seconds: float = math.inf) -> None:
        self.exceeded: Literal["", "memory", "time"] = ""
        self._worker, self._memory, self._seconds = worker, memory, seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        pid = self._worker.pid
        self._before = pid, 0.0 if pid is None else cpu_seconds(pid)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        limited = self._memory < math.inf
        while not self._done.wait(POLL_SECONDS if limited else _TIME_POLL_SECONDS):
            pid = self._worker.pid
            if pid is None:
                continue
            if limited and written_bytes(pid) > self._memory:
                self.exceeded = "memory"
            elif self._seconds < math.inf and self._taken(pid) > self._seconds:
                self.exceeded = "time"
            else:
                continue
            self._worker.kill()
            return

    def _taken(self, pid: int) -> float:
        known, before = self._before
        return cpu_seconds(pid) - (before if pid == known else 0.0)
