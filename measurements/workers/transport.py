"""Between a tuner and a worker, wherever the worker runs: requests, answers and blobs, but no file paths.

``worker.Worker`` is one, a child process over pipes. On other machines an actor of a Ray cluster has one of its own
(``runners.fleet``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from measurements.workers.messages import Buffer, Message

NO_BLOBS: Mapping[str, Buffer] = {}


class WorkerError(Exception):
    """A request that got no answer."""


class WorkerTimeout(WorkerError):
    """The time limit passed; the worker and its process group have been killed."""


class WorkerDied(WorkerError):
    """The process ended or broke the protocol. ``returncode`` is negative for a signal; ``stderr`` is its tail."""

    def __init__(self, message: str, returncode: int | None, stderr: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class WorkerFailed(WorkerError):
    """The handler raised; the worker is alive and takes the next request."""


class WorkerClosed(WorkerError):
    """The worker has been closed, possibly while it was answering."""


class Transport(Protocol):
    """One worker, used by one thread at a time; ``kill`` and ``close`` may come from any.

    A worker that overruns its time is killed for real, with every process of its group. A worker that is gone, in
    whatever way, is replaced by the next ``start`` or ``request``; if it was lost while idle,
    only the next request may notice, and raise WorkerDied.
    """

    @property
    def starts(self) -> int:
        """How many workers there have been; none knows what an earlier one was sent."""

    @property
    def pid(self) -> int | None:
        """The worker's process id on its machine, None while there is none."""

    def start(self) -> None:
        """Start a worker if there is none, and wait until it takes requests. Raises WorkerTimeout, WorkerDied."""

    def request(self, payload: Mapping[str, Any], timeout: float, blobs: Mapping[str, Buffer] = NO_BLOBS) -> Message:
        """Return the handler's answer to ``payload``, within ``timeout`` seconds; starts a worker if there is none.

        ``blobs`` are all that the handler needs, by digest; what the worker has already is not sent again. Raises
        WorkerTimeout, WorkerDied, WorkerFailed, WorkerClosed. After the first two the worker is gone.
        """

    def stop(self) -> None:
        """Kill the worker and its process group; the next request starts a new one."""

    def kill(self) -> None:
        """Kill the worker and its process group now; a request under way raises WorkerDied."""

    def close(self) -> None:
        """End the worker for good. A request under way in another thread raises WorkerClosed."""
