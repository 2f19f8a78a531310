"""From a problem that states its tile program to a kernel template."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from search_spaces.operators.problem import Problem
from search_spaces.programs.beside import Beside
from search_spaces.programs.planning.choices import choices
from search_spaces.programs.schedules.proxy import enough_turns
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem


@cache
def tile_template(problem: type[TileProblem]) -> KernelTemplate:
    """Return the kernel template of a problem type: the schedules of its tile program.

    Its version covers the file that states the program.
    """
    return Beside(
        name=problem.operator,
        operator=problem.operator,
        summary="a tile program",
        make=TileProblem.tile_problem,
        reduce=_reduced,
        content=Path(problem.compute.__code__.co_filename).read_text("utf-8"),
    ).template()


def _reduced(problem: TileProblem, schedule: Schedule) -> Problem:
    own = problem.tile_problem()
    chosen = {name: schedule.integer(name) for name in choices(own).domains}
    return problem.reduced(ReducedLoops(enough_turns(own, schedule), chosen))
