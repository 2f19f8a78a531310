"""Runs pytest in a worker, which ends with whoever started it, in whatever way that ends."""

from __future__ import annotations

import os
from typing import Any

from measurements.worker import serve

MODULE = "benchmarks.gpu_tests"


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest with ``arguments`` in ``folder``; what it prints goes to the file ``log``. Its ``status``."""
    import pytest

    with open(request["log"], "wb") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    os.chdir(request["folder"])
    return {"status": int(pytest.main(request["arguments"]))}


if __name__ == "__main__":
    serve(handle)
