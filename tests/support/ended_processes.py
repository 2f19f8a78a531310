"""Wait for the end of processes that are children of another process."""

from __future__ import annotations

import time
from pathlib import Path


def has_ended(pid: int) -> bool:
    """Return True if a process has ended, including one that is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_ended(*pids: int, seconds: float = 30.0) -> None:
    """Wait until all processes have ended. Raises AssertionError if one still runs after ``seconds``."""
    deadline = time.monotonic() + seconds
    while running := [pid for pid in pids if not has_ended(pid)]:
        assert time.monotonic() < deadline, f"still running: {running}"
        time.sleep(0.01)
