"""Notes about a tile program: how an ambiguous listing was read, and code that is probably a mistake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from search_spaces.operators.problem import Problem

if TYPE_CHECKING:
    from search_spaces.programs.problem import ProgramProblem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line per note with its position in the file; nothing for other problems."""
    if not is_program_problem(problem):
        return ()
    from search_spaces.programs.planning.verify import program_notes

    return program_notes(problem)


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return the notes as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if is_program_problem(problem) else {}


def is_program_problem(problem: Problem) -> TypeGuard[ProgramProblem]:
    """Return True if the problem is that of a tile program, without importing that module for other problems."""
    programs = sys.modules.get("search_spaces.programs.problem")
    return programs is not None and isinstance(problem, programs.ProgramProblem)
