"""Triton programs without a GPU: every launch runs in the emulator and is proven there; kernels are tuned
(``tune``)."""

from typing import TYPE_CHECKING, Any

from autosched.triton.described import LaunchFailed
from autosched.triton.session import (
    QUICK,
    THOROUGH,
    FaultsFound,
    LaunchRecord,
    ProofSettings,
    Session,
    emulate,
    emulated,
)

if TYPE_CHECKING:
    from autosched.triton.tuning import AutotuneHooks, TunedFunction, autotune_hooks, recording, tune

__all__ = [
    "QUICK",
    "THOROUGH",
    "AutotuneHooks",
    "FaultsFound",
    "LaunchFailed",
    "LaunchRecord",
    "ProofSettings",
    "Session",
    "TunedFunction",
    "autotune_hooks",
    "emulate",
    "emulated",
    "recording",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import what tunes when it is asked for: with samplers and the store, which programs that only emulate do
    without."""
    if name in ("AutotuneHooks", "TunedFunction", "autotune_hooks", "recording", "tune"):
        from autosched.triton import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
