"""Emulation of a tile program. The arrays determine its sizes; the time model chooses the default schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.programs.loading import problem as problem_of
from autosched.samplers.first_choices.model_choice import default_choice
from search_spaces.arrays import Array
from search_spaces.hardware.devices import device as device_row
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand, stride_of
from search_spaces.programs.builder import Program
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet


def kernel_of(
    program: Program, arguments: Sequence[Any], device: str, schedule: Schedule | Mapping[str, int | str] | None
) -> tuple[ProgramProblem, GeneratedKernel]:
    """Return the problem that these arrays determine, and the kernel of a schedule for it.

    Args:
        program: The tile program.
        arguments: Arrays and scalars of the program, in its order. The arrays determine the sizes.
        device: Name of the GPU that the kernel is for.
        schedule: Schedule of the program, or its parameter values by name. None selects the schedule chosen by the time
            model.

    Returns:
        The problem and the kernel.

    Raises:
        ValueError: Arrays that do not fit the program, or a schedule that breaks a validity rule.
    """
    problem, row = problem_of(program, **_values(program, arguments)), device_row(device)
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
    """Return the kernel's input arrays by name, converted to their storage types."""
    roles = {o.name: o for o in problem.operands() if o.role != "output"}
    return {
        name: _lines_of(roles[name], array)
        for name, array in zip(parameters_of(problem.program), arguments, strict=True)
        if name in roles
    }


def _lines_of(operand: Operand, array: Array) -> Array:
    """Return an array in its storage type, with its rows padded with zeros to the leading dimension."""
    stored = np.ascontiguousarray(array).view(operand.dtype.storage)
    if operand.columns is None:
        return stored
    values = np.zeros(operand.shape, stored.dtype)
    values[..., : operand.columns] = stored
    return values


def parameters_of(program: Program) -> tuple[str, ...]:
    """Return the names of a program's arrays and scalars, in their order."""
    return program.parameters or tuple(name for name, _ in program.arguments)


def _values(program: Program, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the program's sizes, read from the arrays, and the values of its scalars."""
    names = parameters_of(program)
    if len(arguments) != len(names):
        raise ValueError(f"{program.name} takes {', '.join(names)}, not {len(arguments)} arguments")
    by_name = dict(zip(names, arguments, strict=True))
    sizes: dict[str, Any] = {}
    for name, expected in program.arguments:
        array = by_name[name]
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name} must be an array, not {type(array).__name__}")
        if array.ndim != len(expected.sizes) or array.dtype.itemsize != expected.dtype.bytes:
            raise ValueError(
                f"{name} must have the sizes {' '.join(expected.sizes)} and elements of {expected.dtype.bytes} bytes "
                f"({expected.dtype.name}), not {array.shape} of {array.dtype}"
            )
        for size, extent in zip(expected.sizes, array.shape, strict=True):
            if sizes.setdefault(size, extent) != extent:
                raise ValueError(f"{name} has {size} = {extent}, but an earlier array has {size} = {sizes[size]}")
        if expected.strided:
            sizes[program.strides[name]] = stride_of(name, array.shape, array.strides, array.itemsize)
    return {**sizes, **{name: by_name[name] for name, _ in program.scalars}}
