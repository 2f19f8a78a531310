"""Operators that call tuned kernels from PyTorch.

Start at ``ops.py``, which defines ``torch.ops.autosched``; ``patching.py`` redirects a model's calls to these
operators. For GPU tensors, ``autosched.dispatch.functions`` selects a kernel, and a table in C++ launches it
(``host_path.py``). For CPU tensors, the operators compute a formula in torch. Within the context ``emulated``, they run
the kernel in the emulator instead. This package must not import ``tuning``. ``import autosched`` must not import this
package, because it imports torch.
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
