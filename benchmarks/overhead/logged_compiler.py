"""The compile worker, extended to log start and end of each compilation to the file AUTOSCHED_COMPILE_LOG."""

from __future__ import annotations

import os
import time

from measurements.compiler import nvrtc_worker
from measurements.workers.messages import Message
from measurements.workers.worker import serve

MODULE = "benchmarks.overhead.logged_compiler"
LOG = "AUTOSCHED_COMPILE_LOG"


def handle(request: Message) -> Message:
    began = time.monotonic()
    answer = nvrtc_worker.handle(request)
    with open(os.environ[LOG], "a", encoding="ascii") as log:
        log.write(f"{began} {time.monotonic()}\n")
    return answer


if __name__ == "__main__":
    serve(handle)
