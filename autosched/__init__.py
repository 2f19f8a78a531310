"""autosched: a search-based auto-scheduler for GPU kernels.

>>> import autosched
>>> problem = autosched.Matmul(m=4096, n=4096, k=4096)
>>> result = autosched.tune(problem, trials=256, database="best.db")  # doctest: +SKIP
>>> kernel = autosched.Database("best.db").kernel(problem)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.version import VERSION
from search_spaces.matmul import Matmul
from search_spaces.matvec import Matvec

if TYPE_CHECKING:
    from autosched.database import Database
    from autosched.tuner import tune

__version__ = VERSION
__all__ = ["Database", "Matmul", "Matvec", "__version__", "tune"]


def __getattr__(name: str) -> Any:
    # Importing autosched stays quick: the tuner brings xgboost and optuna along.
    if name == "tune":
        from autosched.tuner import tune

        return tune
    if name == "Database":
        from autosched.database import Database

        return Database
    raise AttributeError(f"module 'autosched' has no attribute {name!r}")
