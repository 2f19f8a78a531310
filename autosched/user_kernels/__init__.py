"""Users' own kernels, described by kernel files.

Start at ``user_kernel.py``: a kernel has its source, parameters, launch and problem. ``document.py`` and ``reading/``
read the TOML file, ``template.py`` builds a kernel template from it, and ``user_functions.py`` calls the user's Python
functions in a child process. This package must not import ``tuning`` or the command line.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from autosched.user_kernels.problem import KernelProblem
    from search_spaces.operators.problem import Problem


class KernelFileError(ValueError):
    """Unusable kernel file. The message is one line: ``conv.toml:12: launch.grid: ...``.

    The error is defined in this module so that commands can catch it without importing the readers.
    """


def is_kernel_problem(problem: Problem) -> TypeGuard[KernelProblem]:
    """Return True if the problem belongs to a user's kernel. The check does not import the module of user kernels."""
    module = sys.modules.get("autosched.user_kernels.problem")
    return module is not None and isinstance(problem, module.KernelProblem)
