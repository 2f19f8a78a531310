"""How long the command has been running, which its summary says."""

from __future__ import annotations

import time

_started = time.monotonic()


def start() -> None:
    """Begin to measure a command."""
    global _started
    _started = time.monotonic()


def seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - _started
