"""The runner that a wheel may bring compiled (``.ci/wheel``): it needs no C++ compiler, and nobody waits for it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from measurements.emulator.host.compiler import cpu_flags
from measurements.emulator.host.seal import intact

FOLDER = Path(__file__).resolve().parents[1] / "prebuilt"  # in a wheel of a platform alone


def prebuilt_name(sources: str) -> str:
    """Return what the runner of sources with this digest is called, compiled for a machine like this one."""
    return "-".join(("runner", sys.platform, platform.machine(), *(f.removeprefix("-") for f in cpu_flags()), sources))


def prebuilt_runner(sources: str) -> Path | None:
    """Return the file of that runner; None where this installation has none, or a damaged one."""
    try:
        path = FOLDER / prebuilt_name(sources)
        return path if intact(path) else None
    except OSError:
        return None
