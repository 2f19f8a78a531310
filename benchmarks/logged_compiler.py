"""The compile worker, with the moments of each compile's begin and end in the file AUTOSCHED_COMPILE_LOG names."""

from __future__ import annotations

import os
import time

from measurements import compile_worker
from measurements.messages import Message
from measurements.worker import serve

MODULE = "benchmarks.logged_compiler"
LOG = "AUTOSCHED_COMPILE_LOG"


def handle(request: Message) -> Message:
    began = time.monotonic()
    answer = compile_worker.handle(request)
    with open(os.environ[LOG], "a", encoding="ascii") as log:
        log.write(f"{began} {time.monotonic()}\n")
    return answer


if __name__ == "__main__":
    serve(handle)
