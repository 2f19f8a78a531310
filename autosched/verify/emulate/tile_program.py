"""Emulation of a tile program: the arrays determine its sizes, and the time model the default schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.programs.loading import problem as problem_of
from autosched.samplers.first_choices.model_choice import default_choice
from search_spaces.arrays import Array
from search_spaces.hardware.devices import device as device_row
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.builder import Program
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet


def kernel_of(
    program: Program, arguments: Sequence[Any], device: str, schedule: Schedule | Mapping[str, int | str] | None
) -> tuple[ProgramProblem, GeneratedKernel]:
    """Return the problem of these arrays and the kernel of a schedule.

    Args:
        program: The tile program.
        arguments: Its arrays in their order, which determine its sizes.
        device: Name of the GPU that the kernel is for.
        schedule: Schedule of the program, or its values by name; None for the time model's choice.

    Returns:
        The problem and the kernel.

    Raises:
        ValueError: Arrays that do not fit the program, or a schedule that breaks a validity rule.
    """
    problem, row = problem_of(program, **_sizes(program, arguments)), device_row(device)
    own = template(program)
    if schedule is None:
        why = own.why_not(problem, row)
        if why is not None:
            raise ValueError(why)
        choice = default_choice(problem, row, TemplateSet([own]))
        if choice is None:
            raise ValueError(f"no schedule of {program.name} fits {row.name}")
        schedule = choice.schedule
    elif not isinstance(schedule, Schedule):
        schedule = Schedule.from_json(program.name, dict(schedule))
    return problem, own.kernel(problem, schedule, row)


def inputs_of(problem: ProgramProblem, arguments: Sequence[Any]) -> dict[str, Array]:
    """Return the kernel's input arrays by name, in their storage types."""
    roles = {o.name: o for o in problem.operands() if o.role != "output"}
    return {
        name: np.ascontiguousarray(array).view(roles[name].dtype.storage)
        for (name, _), array in zip(problem.program.arguments, arguments, strict=True)
        if name in roles
    }


def _sizes(program: Program, arguments: Sequence[Any]) -> dict[str, int]:
    if len(arguments) != len(program.arguments):
        names = ", ".join(name for name, _ in program.arguments)
        raise ValueError(f"{program.name} takes the arrays {names}, not {len(arguments)} arguments")
    sizes: dict[str, int] = {}
    for (name, wanted), array in zip(program.arguments, arguments, strict=True):
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name} is an array, not {type(array).__name__}")
        if array.ndim != len(wanted.sizes) or array.dtype.itemsize != wanted.dtype.bytes:
            raise ValueError(
                f"{name} has the extents {' '.join(wanted.sizes)} and elements of {wanted.dtype.bytes} bytes "
                f"({wanted.dtype.name}), not {array.shape} of {array.dtype}"
            )
        for size, extent in zip(wanted.sizes, array.shape, strict=True):
            if sizes.setdefault(size, extent) != extent:
                raise ValueError(f"{name} has {extent} along {size}, which is {sizes[size]} in an array before it")
    return sizes
