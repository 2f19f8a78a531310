"""Readings that were taken of a listing, and what of a tile program is hardly meant: shown wherever one is used."""

from __future__ import annotations

import sys
from typing import Any

from search_spaces.operators.problem import Problem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line for each, with its place in the file; none for other problems."""
    if not _is_of_program(problem):
        return ()
    from search_spaces.programs.planning.verify import program_notes

    return program_notes(problem)  # type: ignore[arg-type]


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return them as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if _is_of_program(problem) else {}


def _is_of_program(problem: Problem) -> bool:
    """Return whether a tile program of the user made the problem; other commands do not wait for its module."""
    programs = sys.modules.get("search_spaces.programs.problem")
    return programs is not None and isinstance(problem, programs.ProgramProblem)
