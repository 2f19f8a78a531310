"""The operator and the kernel template of a tile program."""

from __future__ import annotations

from functools import cache, lru_cache

from search_spaces.hardware.devices import Device
from search_spaces.operators.operator import Operator
from search_spaces.programs.builder import Program
from search_spaces.programs.lowering.lowering import lower
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.instructions import fragments
from search_spaces.programs.planning.verify import verify, why_not_divided
from search_spaces.programs.problem import ProgramProblem, problem_type
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.schedules.proxy import proxy
from search_spaces.programs.schedules.space import space
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.template import KernelTemplate

# packages whose code affects schedules or kernels, and is therefore part of the template version
PACKAGES = tuple(
    f"search_spaces.programs.{room}" for room in ("language", "inference", "planning", "schedules", "lowering")
)
SOURCE = DeviceSource("autosched/tile/ring.cuh", "autosched::tile::pipeline")


def operator(program: Program) -> Operator:
    """Return the operator of a program. The operator's options are the program's sizes and scalars."""
    return Operator.of(problem_type(program))


@cache
def template(program: Program) -> KernelTemplate:
    """Return the kernel template of a program; cached, so equal programs have the same template object."""
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
        packages=PACKAGES,
    )


@lru_cache(maxsize=256)  # cached: called for each kernel of a search
def _why_not(problem: ProgramProblem, device: Device) -> str | None:
    """Return why a device cannot execute the program: the compiler's error or a missing feature; None if it can."""
    try:
        choices = choices_of(problem)
        for inference in choices.inferences.values():
            verify(inference)
    except ValueError as error:
        return str(error)
    if choices.element is None:
        return None
    rows = [fragments(name) for name in choices.instructions(device)]
    reasons = [row.why_not(device) for row in rows]
    location = choices.first.products[0].source
    if not rows:
        return f"{location}: mma: no instruction of {device.name} multiplies {choices.element.name}"
    if None not in reasons:
        return f"{location}: mma: {reasons[0]}"
    supported = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
    undivided = [why_not_divided(inference, supported) for inference in choices.inferences.values()]
    return None if None in undivided else undivided[0]
