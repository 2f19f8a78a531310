"""The operator and the kernel template of a tile program."""

from __future__ import annotations

from functools import cache

from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.operators.operator import Operator
from search_spaces.programs.builder import Program
from search_spaces.programs.counts import counts
from search_spaces.programs.decisions import choices, rows_of_intrinsics
from search_spaces.programs.lowering import lower
from search_spaces.programs.problem import ProgramProblem, problem_type
from search_spaces.programs.space import space
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.template import KernelTemplate

SOURCE = DeviceSource("autosched/tile/ring.cuh", "autosched::tile::pipeline")


def operator(program: Program) -> Operator:
    """Its options are the program's sizes."""
    return Operator.of(problem_type(program))


@cache
def template(program: Program) -> KernelTemplate:
    """The kernel template of a program; the same object for equal programs."""
    return KernelTemplate(
        name=program.name,
        summary=program.summary,
        operators=(program.name,),
        source=SOURCE,
        space=space,
        lower=lower,
        supports=_why_not,
        counts=counts,
        proxy=proxy,
        content=program.content,
    )


def _why_not(problem: ProgramProblem, device: Device) -> str | None:
    """What the compiler refuses, in one line, or what the device lacks."""
    try:
        element = choices(problem).element
    except ValueError as error:
        return str(error)
    rows = [intrinsics.intrinsic(name) for name in rows_of_intrinsics(element)]
    reasons = [row.why_not(device) for row in rows]
    return None if None in reasons else reasons[0]


def proxy(problem: ProgramProblem, schedule: Schedule) -> ProgramProblem:
    """``problem`` cut to a few tiles of ``schedule``, with its remainders, and steps enough to fill the ring again.

    A size that no axis of the products stands for stays as it is.
    """
    chosen = {name: schedule.integer(name) for name in problem.program.domains(problem.sizes)}
    found = choices(problem)
    tile = found.tiles[tuple(chosen.values())]
    first = found.analysis
    a, b = (next(o for o in first.operands if o.side == side) for side in ("a", "b"))
    sizes = dict(problem.sizes)
    rows, columns = a.array.sizes[not a.row_major], b.array.sizes[b.row_major]
    depth = a.array.sizes[a.row_major]
    kept = {rows: tile[0], columns: tile[1], depth: tile[2] * schedule.integer("stages")}
    if len(kept) < 3:  # one name for two axes
        return problem
    for name, size in kept.items():
        unit = tile[2] if name == depth else size
        sizes[name] = min(sizes[name], size + (sizes[name] % unit or unit))
    return type(problem)(**sizes)
