"""Protocol of a connection to a worker on any machine. It transports requests, replies and blobs, but no file paths.

``worker.Worker`` implements the protocol for a child process with pipes. On other machines, each actor of a Ray cluster
has such a worker (``runners.fleet``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from measurements.workers.messages import Buffer, Message

NO_BLOBS: Mapping[str, Buffer] = {}


class WorkerError(Exception):
    """A request to a worker failed."""


class WorkerTimeout(WorkerError):
    """The worker exceeded the time limit, and was killed with its process group."""


class WorkerDied(WorkerError):
    """The worker ended or violated the protocol.

    ``returncode`` is negative for a signal. ``stderr`` is the end of the worker's error output.
    """

    def __init__(self, message: str, returncode: int | None, stderr: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class WorkerFailed(WorkerError):
    """The handler raised an exception. The worker is alive and accepts further requests."""


class WorkerClosed(WorkerError):
    """The worker was closed, possibly during a request."""


class Transport(Protocol):
    """Connection to one worker. One thread at a time may use it, but any thread may call ``kill`` and ``close``.

    A worker that exceeds its time limit is killed with every process of its group. The next ``start`` or ``request``
    replaces a worker that has ended for any reason. If a worker ended while it was idle, the next request may raise
    WorkerDied.
    """

    @property
    def starts(self) -> int:
        """Number of workers started so far. A new worker has no blobs of earlier workers."""

    @property
    def pid(self) -> int | None:
        """Process id of the worker on its machine; None if it is not running."""

    def start(self) -> None:
        """Start a worker if none is running, and wait until it accepts requests. Raises WorkerTimeout, WorkerDied."""

    def request(self, payload: Mapping[str, Any], timeout: float, blobs: Mapping[str, Buffer] = NO_BLOBS) -> Message:
        """Return the handler's reply to ``payload``, within ``timeout`` seconds. A worker is started if necessary.

        ``blobs`` has all blobs that the handler needs, by digest. Blobs that the worker already has are not sent again.
        Raises WorkerTimeout, WorkerDied, WorkerFailed, WorkerClosed. After WorkerTimeout and WorkerDied, the worker has
        ended.
        """

    def stop(self) -> None:
        """Kill the worker and its process group. The next request starts a new worker."""

    def kill(self) -> None:
        """Kill the worker and its process group. A pending request raises WorkerDied."""

    def close(self) -> None:
        """End the worker permanently. A pending request in another thread raises WorkerClosed."""
