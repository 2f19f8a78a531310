"""What one compilation may take of memory and of the CPU, held by whoever waits for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from measurements.workers.messages import Buffer, Message
from measurements.workers.resource_watch import ResourceWatch, written_bytes
from measurements.workers.transport import WorkerDied
from measurements.workers.worker import Worker
from search_spaces.templates.kernel import CompileLimits

NO_LIMITS = CompileLimits()
MACHINE_CODE = 6.0  # times the seconds of PTX: a convolution of 6,000 unrolled instructions takes 11 s of the CPU


class LimitExceeded(Exception):
    """The compiler was ended at its ``limits``. ``status`` is that of the compilation; the message is one line."""

    def __init__(self, limits: CompileLimits, what: str, times: float) -> None:
        super().__init__(limits.why(what, times))
        self.status: Literal["compile_timeout", "compile_error"] = (
            "compile_timeout" if what == "time" else "compile_error"
        )


def patience(seconds: float, limits: CompileLimits, times: float = 1.0) -> float:
    """Return how long an answer is waited for: ``seconds``, or more, as the compiler may share its CPU."""
    return max(seconds, 10 * times * limits.seconds) if limits.seconds < math.inf else seconds


def request_within(
    limits: CompileLimits,
    worker: Worker,
    request: Mapping[str, Any],
    timeout: float,
    blobs: Mapping[str, Buffer],
    times: float = 1.0,
) -> Message:
    """Return what a compiler answers within its limits, in ``times`` their seconds. Raises LimitExceeded, and as
    ``Worker.request`` does."""
    if not limits:
        return worker.request(request, timeout, blobs)
    worker.start()
    pid = worker.pid
    before = 0 if pid is None else written_bytes(pid)
    watch = ResourceWatch(worker, before + limits.memory, times * limits.seconds)
    try:
        with watch:
            return worker.request(request, timeout, blobs)
    except WorkerDied:
        if watch.exceeded:
            raise LimitExceeded(limits, watch.exceeded, times) from None
        raise
