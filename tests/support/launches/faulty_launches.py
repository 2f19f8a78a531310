"""A fake of the process that owns a GPU: the test id of a recorded launch selects the process's behaviour."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.launches.kept import read
from measurements.workers.worker import serve


def handle(request: Mapping[str, Any]) -> dict[str, Any]:
    name = read(Path(request["folder"]), request["name"]).test.partition("[")[0]
    row: dict[str, Any] = {"status": name, "process": os.getpid()}
    match name:
        case "dies":
            os._exit(3)
        case "sleeps":
            time.sleep(600)
        case "raises":
            raise RuntimeError("no memory")
        case "differs":
            row |= {"errors": {"out": 0.25, "more": None}, "repeats": True}
    return row


if __name__ == "__main__":
    serve(handle)
