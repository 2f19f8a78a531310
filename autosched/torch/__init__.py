"""Calls of tuned kernels from PyTorch.

Start at ``ops.py``, which defines ``torch.ops.autosched``; ``patching.py`` redirects a model's calls to these
operators. On GPUs the operators launch the kernels that ``autosched.dispatch.functions`` selects, from a table in C++
(``host_path.py``). On CPU tensors they use torch's own formula, or the emulator within ``emulated``. This package
must not import ``tuning``, and ``import autosched`` must not import this package, which imports torch.
"""

from autosched.torch import attention_gradient, cross_entropy_gradient, tile_ops  # noqa: F401  # define operators
from autosched.torch.cpu import emulated
from autosched.torch.host_path import launch_table
from autosched.torch.ops import layernorm, matmul, matvec, reduce, rmsnorm, softmax, transpose
from autosched.torch.patching import Calls, patch

__all__ = [
    "Calls",
    "emulated",
    "launch_table",
    "layernorm",
    "matmul",
    "matvec",
    "patch",
    "reduce",
    "rmsnorm",
    "softmax",
    "transpose",
]
