"""Notes about a tile program: how an ambiguous listing was read, and code that is probably a mistake."""

from __future__ import annotations

from typing import Any

from search_spaces.operators.problem import Problem
from search_spaces.programs import is_program_problem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line per note with its position in the file; nothing for other problems."""
    if not is_program_problem(problem):
        return ()
    from search_spaces.programs.planning.verify import program_notes

    return program_notes(problem)


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return the notes as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if is_program_problem(problem) else {}
