"""Runs pytest in a worker, which ends with whoever started it, in whatever way that ends."""

from __future__ import annotations

import os
import signal
from threading import Event, Timer
from typing import Any

from measurements.workers.worker import serve

MODULE = "benchmarks.gpu.device_tests"


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest with ``arguments`` in ``folder``; what it prints goes to the file ``log``. After ``seconds`` it is
    interrupted as by Ctrl-C, so that it reports what it has. Its exit status, and whether it was interrupted."""
    import pytest

    with open(request["log"], "wb") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    os.chdir(request["folder"])
    late = Event()

    def interrupt() -> None:
        late.set()
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = Timer(request["seconds"], interrupt)
    timer.daemon = True
    timer.start()
    status = pytest.main(request["arguments"])
    timer.cancel()
    return {"returncode": int(status), "timed_out": late.is_set()}


if __name__ == "__main__":
    serve(handle)
