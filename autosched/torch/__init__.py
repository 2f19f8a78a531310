"""Tuned kernels in PyTorch: operators of ``torch.ops.autosched``, and ``patch``, which sends a model's calls to them.

Start with ``ops.py``. ``import autosched`` never imports this package, which imports torch. On GPUs the operators run
what ``autosched.dispatch.functions`` chooses; on CPU tensors the formula in torch, or the emulator within ``emulated``.
"""

from autosched.torch.cpu import emulated
from autosched.torch.ops import layernorm, matmul, matvec, reduce, rmsnorm, softmax, transpose
from autosched.torch.patching import Calls, patch

__all__ = [
    "Calls",
    "emulated",
    "layernorm",
    "matmul",
    "matvec",
    "patch",
    "reduce",
    "rmsnorm",
    "softmax",
    "transpose",
]
