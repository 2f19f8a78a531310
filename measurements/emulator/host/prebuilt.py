"""The compiled runner of a platform wheel (``.ci/wheel``): it needs no C++ compiler and no build time."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from measurements.emulator.host.compiler import cpu_flags
from measurements.emulator.host.seal import intact

FOLDER = Path(__file__).resolve().parents[1] / "prebuilt"  # only in platform wheels


def prebuilt_name(sources: str) -> str:
    """Return the file name of the compiled runner of sources with this digest, for this kind of machine."""
    return "-".join(("runner", sys.platform, platform.machine(), *(f.removeprefix("-") for f in cpu_flags()), sources))


def prebuilt_runner(sources: str) -> Path | None:
    """Return the file of that runner; None if this installation has none, or a damaged one."""
    try:
        path = FOLDER / prebuilt_name(sources)
        return path if intact(path) else None
    except OSError:
        return None
