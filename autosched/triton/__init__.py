"""Verification and tuning of the Triton kernels that a program launches.

Start at ``session.py``, which runs every launch of a Triton program in the emulator and verifies it. ``tuning/``
searches configurations of a function, and ``persistence/`` stores the choices of stock autotuners. Importing the
package does not import torch; the names that need it do so on first use. This package must not import ``judge`` or
``integrations``, which use it.
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

    Reading configuration files needs neither torch nor Triton, and emulation needs neither samplers nor the store.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "autosched.triton.session")), name)
