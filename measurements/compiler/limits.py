"""Memory and CPU limits of one compilation, enforced by the process that waits for the compiler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from measurements.workers import resource_watch
from measurements.workers.messages import Buffer, Message
from measurements.workers.resource_watch import written_bytes
from measurements.workers.worker import Worker
from search_spaces.launches.generated_kernel import CompileLimits

NO_LIMITS = CompileLimits()
# Time limit for compiling to machine code, as a multiple of the time limit for compiling to PTX. Compiling a
# convolution of 6,000 unrolled instructions to machine code takes 11 CPU seconds.
MACHINE_CODE = 6.0


class CompilerLimitExceeded(Exception):
    """The compiler exceeded a limit and was killed. ``status`` is the compilation's status; the message is one line."""

    def __init__(self, status: Literal["compile_timeout", "compile_error"], why: str) -> None:
        super().__init__(why)
        self.status: Literal["compile_timeout", "compile_error"] = status


def request_within(
    limits: CompileLimits,
    worker: Worker,
    request: Mapping[str, Any],
    blobs: Mapping[str, Buffer],
    usual_seconds: float,
    times: float = 1.0,
) -> Message:
    """Send a request to a compiler, kill it if it exceeds its limits, and return its reply.

    Args:
        limits: Limits that the user's kernel sets.
        worker: Process of the compiler.
        request: Compile request.
        blobs: As in ``Worker.request``.
        usual_seconds: Limit in CPU seconds that applies if ``limits`` has no time limit.
        times: Factor that multiplies the time limit of ``limits``.

    Returns:
        As ``Worker.request``.

    Raises:
        CompilerLimitExceeded: The compiler was killed.
        WorkerError: As ``Worker.request``.
    """
    seconds = times * limits.seconds if limits.seconds < math.inf else usual_seconds
    memory = math.inf
    if limits.memory < math.inf:
        worker.start()
        memory = limits.memory + (0 if worker.pid is None else written_bytes(worker.pid))
    try:
        return resource_watch.request_within(worker, request, blobs, seconds=seconds, memory=memory)
    except resource_watch.WorkerLimitExceeded as exceeded:
        if exceeded.limit == "wall clock":
            why = f"not compiled within {resource_watch.WALL_CLOCK_TIMES * seconds:g} s"
        elif exceeded.limit == "time" and limits.seconds == math.inf:
            why = f"not compiled within {seconds:g} CPU seconds"
        else:
            why = limits.why(exceeded.limit, times)
        raise CompilerLimitExceeded("compile_error" if exceeded.limit == "memory" else "compile_timeout", why) from None
