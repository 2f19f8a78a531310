"""Search for the fastest configuration of a Triton kernel.

Start at ``search.py``. A Triton function is treated as a kernel template. Its problem (``problem.py``) is one call of
the function (``call.py``), and its space (``space.py``) has the configurations. ``compiling/`` compiles a candidate,
``runner.py`` counts its work and estimates its time, and ``verifier.py`` verifies it. Public names are imported on
first use. ``persistence`` imports this package, so it must not be imported here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.triton.tuning.call import KernelCall
    from autosched.triton.tuning.decorator import TunedFunction, tune
    from autosched.triton.tuning.hooks import AutotuneHooks, autotune_hooks
    from autosched.triton.tuning.listened import recording
    from autosched.triton.tuning.search import TritonTuning, tune_call

__all__ = [
    "AutotuneHooks",
    "KernelCall",
    "TritonTuning",
    "TunedFunction",
    "autotune_hooks",
    "recording",
    "tune",
    "tune_call",
]

_HOMES = {
    **dict.fromkeys(("TunedFunction", "tune"), "decorator"),
    **dict.fromkeys(("TritonTuning", "tune_call"), "search"),
    "AutotuneHooks": "hooks",
    "autotune_hooks": "hooks",
    "KernelCall": "call",
    "recording": "listened",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
