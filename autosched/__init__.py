"""autosched: a search-based auto-scheduler for GPU kernels.

>>> import autosched
>>> problem = autosched.Matmul(m=4096, n=4096, k=4096)
>>> result = autosched.tune(problem, trials=256, database="best.db")  # doctest: +SKIP
>>> kernel = autosched.Database("best.db").kernel(problem)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from autosched.version import VERSION

if TYPE_CHECKING:
    from autosched.dispatch.call_log import recording
    from autosched.dispatch.database import Database
    from autosched.dispatch.functions import layernorm, matmul, matvec, reduce, rmsnorm, softmax, transpose, use
    from autosched.proofs.emulate import Struct, Surface, TensorMapOf, Texture, emulate
    from autosched.samplers.optuna.study_sampler import StudySampler
    from autosched.tuning.tune import tune
    from autosched.user_kernels.user_kernel import Kernel
    from search_spaces.operators.copy import Copy
    from search_spaces.operators.matmul import Matmul
    from search_spaces.operators.matvec import Matvec
    from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
    from search_spaces.operators.transpose import Transpose

__version__ = VERSION
__all__ = [
    "Copy",
    "Database",
    "Kernel",
    "LayerNorm",
    "Matmul",
    "Matvec",
    "Reduce",
    "RmsNorm",
    "Softmax",
    "Struct",
    "StudySampler",
    "Surface",
    "TensorMapOf",
    "Texture",
    "Transpose",
    "__version__",
    "emulate",
    "layernorm",
    "matmul",
    "matvec",
    "recording",
    "reduce",
    "rmsnorm",
    "softmax",
    "transpose",
    "tune",
    "use",
]

_HOMES = {
    "Copy": "search_spaces.operators.copy",
    "Database": "autosched.dispatch.database",
    "Kernel": "autosched.user_kernels.user_kernel",
    "LayerNorm": "search_spaces.operators.row_reduction",
    "Matmul": "search_spaces.operators.matmul",
    "Matvec": "search_spaces.operators.matvec",
    "Reduce": "search_spaces.operators.row_reduction",
    "RmsNorm": "search_spaces.operators.row_reduction",
    "Softmax": "search_spaces.operators.row_reduction",
    "Transpose": "search_spaces.operators.transpose",
    "StudySampler": "autosched.samplers.optuna.study_sampler",
    **dict.fromkeys(("Struct", "Surface", "TensorMapOf", "Texture", "emulate"), "autosched.proofs.emulate"),
    "recording": "autosched.dispatch.call_log",
    "tune": "autosched.tuning.tune",
    **dict.fromkeys(
        ("layernorm", "matmul", "matvec", "reduce", "rmsnorm", "softmax", "transpose", "use"),
        "autosched.dispatch.functions",
    ),
}


def __getattr__(name: str) -> Any:
    # Importing autosched is fast: the command line handles Ctrl-C before anything slow is imported.
    if name not in _HOMES:
        raise AttributeError(f"module 'autosched' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found
