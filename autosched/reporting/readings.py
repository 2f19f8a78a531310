"""Notes about a tile program: how an ambiguous listing was read, and code that is probably a mistake."""

from __future__ import annotations

import sys
from typing import Any

from search_spaces.operators.problem import Problem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line per note with its position in the file; nothing for other problems."""
    if not _is_of_program(problem):
        return ()
    from search_spaces.programs.planning.verify import program_notes

    return program_notes(problem)  # type: ignore[arg-type]


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return the notes as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if _is_of_program(problem) else {}


def _is_of_program(problem: Problem) -> bool:
    """Return whether the problem is a user's tile program, without importing that module for other problems."""
    programs = sys.modules.get("search_spaces.programs.problem")
    return programs is not None and isinstance(problem, programs.ProgramProblem)
