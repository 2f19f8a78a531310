"""Verify and tune the Triton kernels that a program launches.

Start at ``session.py``, which runs every launch of a Triton program in the emulator and verifies it. ``tuning/``
searches configurations of a function. ``persistence/`` stores the configurations that Triton's own autotuners choose.
Importing this package does not import torch. Public names that need torch import it on first use. ``judge`` and
``integrations`` import this package, so it must not import them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.triton.described import LaunchFailed
    from autosched.triton.persistence import Persistence, persist
    from autosched.triton.session import FaultsFound, Session, VerifiedLaunch, emulate, emulated
    from autosched.triton.tuning import AutotuneHooks, TunedFunction, autotune_hooks, recording, tune
    from autosched.verify.launch_plan import QUICK, THOROUGH, LaunchPlan

__all__ = [
    "QUICK",
    "THOROUGH",
    "AutotuneHooks",
    "FaultsFound",
    "LaunchFailed",
    "LaunchPlan",
    "Persistence",
    "Session",
    "TunedFunction",
    "VerifiedLaunch",
    "autotune_hooks",
    "emulate",
    "emulated",
    "persist",
    "recording",
    "tune",
]

_HOMES = {
    "LaunchFailed": "autosched.triton.described",
    **dict.fromkeys(("Persistence", "persist"), "autosched.triton.persistence"),
    **dict.fromkeys(("QUICK", "THOROUGH", "LaunchPlan"), "autosched.verify.launch_plan"),
    **dict.fromkeys(
        ("AutotuneHooks", "TunedFunction", "autotune_hooks", "recording", "tune"), "autosched.triton.tuning"
    ),
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use.

    Reading configuration files thus imports neither torch nor Triton, and emulation imports neither samplers nor the
    store.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "autosched.triton.session")), name)
