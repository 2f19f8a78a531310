"""Find the source line that launches an emulated kernel."""

from __future__ import annotations

import sys

_INTERNAL_MODULES = ("autosched.", "triton.", "torch.", "contextlib", "functools", "numpy.", "threading")


def call_site() -> tuple[str, int]:
    """Return file and line of the nearest call outside autosched, Triton and torch, or ("unknown", 0)."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not f"{name}.".startswith(_INTERNAL_MODULES):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown", 0
