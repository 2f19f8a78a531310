"""How many cores there are to compile, and to verify, on."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_beside(gpus: int) -> int:
    """Compilers for a run that measures on so many GPUs: the worker of each keeps a core, at least one compiles."""
    return max(1, usable_cores() - gpus)
