"""Notes about a tile program: interpretations of ambiguous code, and code that is probably a mistake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from search_spaces.operators.problem import Problem

if TYPE_CHECKING:
    from search_spaces.programs.problem import ProgramProblem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line per note, with the position in the file; no lines for a problem without a tile program."""
    if not is_program_problem(problem):
        return ()
    from search_spaces.programs.planning.verify import program_notes

    return program_notes(problem)


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return the notes as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if is_program_problem(problem) else {}


def is_program_problem(problem: Problem) -> TypeGuard[ProgramProblem]:
    """Return True if the problem belongs to a tile program. Imports the module of tile programs only if needed."""
    programs = sys.modules.get("search_spaces.programs.problem")
    return programs is not None and isinstance(problem, programs.ProgramProblem)
