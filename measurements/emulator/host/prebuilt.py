"""Find the compiled runner that a platform wheel contains (``.ci/wheel``). It makes a C++ compiler unnecessary."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from measurements.emulator.host.compiler import cpu_flags
from measurements.emulator.host.seal import intact

FOLDER = Path(__file__).resolve().parents[1] / "prebuilt"  # this folder only exists in platform wheels


def prebuilt_name(sources: str) -> str:
    """Return the file name of the compiled runner for sources with this digest and for this platform."""
    return "-".join(("runner", sys.platform, platform.machine(), *(f.removeprefix("-") for f in cpu_flags()), sources))


def prebuilt_runner(sources: str) -> Path | None:
    """Return the path of the compiled runner; None if it is missing or damaged."""
    try:
        path = FOLDER / prebuilt_name(sources)
        return path if intact(path) else None
    except OSError:
        return None
