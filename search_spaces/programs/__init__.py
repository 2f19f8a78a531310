"""How does a user's operator, written as operations on tiles, become kernels?

Start at ``builder.py``, the public language. A program is traced (``language``), given distributions (``inference``),
planned (``planning``), lowered to CUDA C++ (``lowering``), and its open decisions are a space (``schedules``).
``text`` reads and prints programs as listings. This room must not import ``tile_operators`` or the catalogue.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from search_spaces.operators.problem import Problem
    from search_spaces.programs.problem import ProgramProblem


def is_program_problem(problem: Problem) -> TypeGuard[ProgramProblem]:
    """Return whether the problem is that of a tile program, without importing that module for other problems."""
    module = sys.modules.get("search_spaces.programs.problem")
    return module is not None and isinstance(problem, module.ProgramProblem)
