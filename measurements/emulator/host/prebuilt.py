"""Find the compiled runner in a platform wheel (``.ci/wheel``), with which no C++ compiler is needed."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from measurements.emulator.host.compiler import cpu_flags
from measurements.emulator.host.seal import intact

FOLDER = Path(__file__).resolve().parents[1] / "prebuilt"  # only in platform wheels


def prebuilt_name(sources: str) -> str:
    """Return the file name of the compiled runner for sources with this digest and for this platform."""
    return "-".join(("runner", sys.platform, platform.machine(), *(f.removeprefix("-") for f in cpu_flags()), sources))


def prebuilt_runner(sources: str) -> Path | None:
    """Return the path of that runner; None if it is missing or damaged."""
    try:
        path = FOLDER / prebuilt_name(sources)
        return path if intact(path) else None
    except OSError:
        return None
