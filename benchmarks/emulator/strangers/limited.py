"""A program and its children under a limit of CPU seconds, which a busy machine does not use up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_MOST_WALL = 10  # times the CPU seconds: what waits for nothing ends, too
_TICKS = os.sysconf("SC_CLK_TCK")


def ends_within(seconds: float, command: Sequence[str], folder: Path, output: BinaryIO) -> bool:
    """Whether it ends before its session has used so much CPU time; it is killed where not."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    begun = time.monotonic()
    while time.monotonic() - begun < _MOST_WALL * seconds and _cpu_seconds(process.pid) < seconds:
        try:
            process.wait(0.5)
            return True
        except subprocess.TimeoutExpired:
            pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
    process.wait()
    return False


def _cpu_seconds(session: int) -> float:
    """Of a session's processes and of those children of theirs that have ended."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS
