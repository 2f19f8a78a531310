"""Run ``device_child`` until a time limit, and yield the results."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[3]


def timed(part: str, keys: Sequence[str], seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (key, result) for each key as soon as the result is known.

    A result has the times ``microseconds`` by name, or the ``reason`` why there are no times. If a key was not reached
    within ``seconds``, its result has ``cut``.
    """
    command = [sys.executable, "-m", "benchmarks.gpu.plan.device_child", part, *keys]
    missing = list(keys)
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as child:
        limit = threading.Timer(seconds, child.kill)
        limit.start()
        try:
            for line in child.stdout or ():
                row = json.loads(line)
                key = row.pop("key")
                missing.remove(key)
                yield key, row
        finally:
            limit.cancel()
            child.kill()
    for key in missing:
        yield key, {"reason": f"not timed within {seconds:.0f} s", "cut": True}


def summary(row: dict[str, Any]) -> str:
    """Return one line for a result."""
    times = row.get("microseconds")
    return ", ".join(f"{name} {t:.2f} us" for name, t in times.items()) if times else str(row["reason"])
