"""Measure the run time of the current command, for the command's summary."""

from __future__ import annotations

import time

_started = time.monotonic()


def start() -> None:
    """Start the clock."""
    global _started
    _started = time.monotonic()


def seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - _started
