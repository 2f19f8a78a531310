"""Use pytest to run the tests with the mark ``gpu``, in a worker process that ends when its parent process ends."""

from __future__ import annotations

import os
import signal
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from threading import Event, Timer
from typing import Any

from measurements.workers.worker import serve

MODULE = "benchmarks.gpu.device_tests"
_INI = """[pytest]
markers = gpu: needs a CUDA GPU that answers
pythonpath = {folders}
"""


def ini(root: Path) -> str:
    """Return pytest's configuration, with the import paths of the project at ``root``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    folders = project["tool"]["pytest"]["ini_options"]["pythonpath"]
    return _INI.format(folders=" ".join(str(root / folder) for folder in folders))


def counts(path: Path) -> dict[str, int]:
    """Return the numbers of passed, failed and skipped tests in a JUnit XML file."""
    totals: Counter[str] = Counter()
    try:
        suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):  # pytest was killed before it wrote the file
        suites = []
    for suite in suites:
        for name in ("tests", "failures", "errors", "skipped"):
            totals[name] += int(suite.get(name, "0"))
    failed = totals["failures"] + totals["errors"]
    return {"passed": totals["tests"] - failed - totals["skipped"], "failed": failed, "skipped": totals["skipped"]}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest with ``arguments`` in ``folder``, and write pytest's output to the file ``log``.

    After ``seconds`` pytest is interrupted as by Ctrl-C, so that it reports the results so far. Returns pytest's exit
    status, and True if it was interrupted.
    """
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
    sys.stdout.flush()  # write buffers now, because the worker may be killed later
    sys.stderr.flush()
    return {"returncode": int(status), "timed_out": late.is_set()}


if __name__ == "__main__":
    serve(handle)
