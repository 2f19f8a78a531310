"""Readings that were taken of a listing, and what of a tile program is hardly meant: shown wherever one is used."""

from __future__ import annotations

from typing import Any

from search_spaces.operators.problem import Problem
from search_spaces.programs.planning.verify import program_notes
from search_spaces.programs.problem import ProgramProblem


def readings(problem: Problem) -> tuple[str, ...]:
    """Return one line for each, with its place in the file; none for other problems."""
    return program_notes(problem) if isinstance(problem, ProgramProblem) else ()


def readings_json(problem: Problem) -> dict[str, Any]:
    """Return them as the ``notes`` of a JSON document."""
    return {"notes": list(readings(problem))} if isinstance(problem, ProgramProblem) else {}
