"""Limits of CPU time and memory for a worker and its child processes. A worker that exceeds a limit is killed.

The time limit applies to CPU time, because on a busy machine the wall-clock time of a correct process may be much
longer. There is also a limit of wall-clock time, for a worker that waits forever.

The memory limit applies to memory that was written: anonymous and shared memory, including swapped pages. A limit of
the address space would apply to each process separately. Such a limit would also kill correct processes, because
libraries such as PyTorch reserve much more memory than they use.
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

POLL_SECONDS = 0.005  # seconds between two checks of memory; until the next check, a core writes at most about 10 MB
_TIME_POLL_SECONDS = 0.05  # seconds between two checks if memory is not limited
# ratio of the wall-clock limit to the CPU limit; on a busy machine a process may get a tenth of a core
WALL_CLOCK_TIMES = 10.0
_WRITTEN = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)


def written_bytes(pid: int) -> int:
    """Return the bytes of memory that a process and its descendants have written; 0 if unknown."""
    return 1024 * sum(sum(map(int, _WRITTEN.findall(text))) for text in _family(pid, "status"))


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, including ended descendants.

    Returns 0 if the system does not report them.
    """
    # Fields after the name, which may contain any character. Fields 14 to 17 are utime, stime, cutime and cstime.
    ticks = sum(sum(map(int, text.rpartition(")")[2].split()[11:15])) for text in _family(pid, "stat"))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _family(pid: int, file: str) -> Iterator[str]:
    """Yield the contents of ``file`` in /proc for a process and each of its descendants."""
    waiting = [pid]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        try:
            yield (folder / file).read_text(errors="replace")  # the name of a process may contain any bytes
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:  # the process has ended, or the system is not Linux
            continue


class WorkerLimitExceeded(Exception):
    """A worker was killed because it exceeded a limit: "time" (CPU time), "memory" or "wall clock"."""

    def __init__(self, limit: Literal["time", "memory", "wall clock"]) -> None:
        super().__init__(limit)
        self.limit = limit


def request_within(
    worker: Worker,
    payload: Mapping[str, Any],
    blobs: Mapping[str, Buffer] = NO_BLOBS,
    *,
    seconds: float,
    memory: float = math.inf,
) -> Message:
    """Send a request to a worker with limits, and return the reply.

    The limit of wall-clock time is WALL_CLOCK_TIMES times ``seconds``.

    Args:
        worker: The worker, which is started if necessary. The time of the start is not limited.
        payload: As for ``Worker.request``.
        blobs: As for ``Worker.request``.
        seconds: Limit of the CPU time of the worker and its descendants, in seconds.
        memory: Limit of the memory of the worker and its descendants, in bytes.

    Returns:
        The reply, as from ``Worker.request``.

    Raises:
        WorkerLimitExceeded: The worker exceeded a limit and was killed.
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
    """Context manager that kills ``worker`` if it exceeds ``memory`` bytes, or ``seconds`` of CPU time since entry.

    Afterwards ``exceeded`` names the exceeded limit; "" if no limit was exceeded.
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
            elif self._seconds < math.inf and self._used_seconds(pid) > self._seconds:
                self.exceeded = "time"
            else:
                continue
            self._worker.kill()
            return

    def _used_seconds(self, pid: int) -> float:
        known, before = self._before
        return cpu_seconds(pid) - (before if pid == known else 0.0)
