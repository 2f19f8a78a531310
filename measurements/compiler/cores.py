"""Number of cores for compiling and verifying."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_workers(gpus: int) -> int:
    """Return how many compiler processes to run next to GPU measurements.

    One core is reserved for the worker of each GPU; at least one compiler runs.
    """
    return max(1, usable_cores() - gpus)
