"""Kernel templates of problems that are computed by tile programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from search_spaces.operators.problem import Problem
from search_spaces.programs.pipeline import Pipeline
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.program_template import ProgramTemplate
from search_spaces.programs.schedules.proxy import enough_iterations
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate
from search_spaces.tile_operators.tile_pipeline import TilePipeline
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileOperator, TileProblem, program_text


@cache
def tile_template(problem: type[TileOperator]) -> KernelTemplate:
    """Return the kernel template of a problem type. Its space is the space of the tile program or pipeline.

    The template version includes the files that define the program.
    """
    if issubclass(problem, TilePipeline):
        return Pipeline(
            operator=problem.operator,
            summary="tile programs, one after another",
            make=TilePipeline.programs,
            reduce=_reduced_pipeline,
            content=program_text(problem.steps),
        ).template()
    assert issubclass(problem, TileProblem)
    return ProgramTemplate(
        name=problem.operator,
        operator=problem.operator,
        summary="a tile program",
        make=TileProblem.tile_problem,
        reduce=_reduced,
        reduce_to_long_loops=_reduced_to_long_loops,
        content=program_text(problem.compute),
    ).template()


def _loops(problem: TileProblem, schedule: Schedule) -> ReducedLoops:
    own = problem.tile_problem()
    chosen = {name: schedule.integer(name) for name in choices_of(own).domains}
    return ReducedLoops(
        enough_iterations(own, schedule),
        chosen,
        enough_iterations(own, schedule, most_parts=2),
        bool(schedule.values.get("stream_k")),
    )


def _reduced(problem: TileProblem, schedule: Schedule) -> Problem:
    return problem.reduced(_loops(problem, schedule))


def _reduced_to_long_loops(problem: TileProblem, schedule: Schedule) -> Problem | None:
    return problem.reduced_to_long_loops(_loops(problem, schedule))


def _reduced_pipeline(problem: TilePipeline, schedules: Mapping[str, Schedule]) -> Problem:
    """Reduce a problem such that every step has enough iterations. Names of sizes must differ between steps."""
    count, chosen = 1, dict[str, int]()
    for step, own in problem.programs().items():
        count = max(count, enough_iterations(own, schedules[step]))
        chosen |= {name: schedules[step].integer(name) for name in choices_of(own).domains}
    streamed = any(schedule.values.get("stream_k") for schedule in schedules.values())
    return problem.reduced(ReducedLoops(count, chosen, streamed=streamed))
