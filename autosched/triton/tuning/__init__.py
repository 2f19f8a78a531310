"""Which configuration of a Triton kernel is fastest? Start at ``search.py``.

A Triton function is a kernel template like any other: a space (``space.py``) of one problem (``problem.py``), which is
a call of the function (``call.py``). Candidates are compiled (``compiling/``), counted and timed by the model
(``runner.py``), and proven (``judge.py``). Knows nothing of NVRTC.
"""

from autosched.triton.tuning.autotune_hooks import AutotuneHooks, autotune_hooks
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.decorator import TunedFunction, tune
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
