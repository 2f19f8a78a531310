"""Schedules and times in a file of measurements: a Kernel Tuner cache, results in T4 format, or a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from measurements.tables.reading import read_table
from measurements.tables.table import RawValue, Table, TableError
from measurements.trials.measurement import Measurement
from search_spaces.hardware.devices import Device, devices_of_driver_name
from search_spaces.operators.problem import Problem
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet


def device_of_table(path: str | Path) -> Device | None:
    """Return the GPU that a file names as its device; None if it is not in the device table. Raises TableError."""
    rows = devices_of_driver_name(read_table(path).device)
    return rows[0] if len(rows) == 1 else None


def schedules_of_table(
    path: str | Path, problem: Problem, templates: TemplateSet, device: Device
) -> tuple[Table, dict[Schedule, Measurement]]:
    """Return the table of a file, and a mapping from schedules of ``problem`` to measurements.

    Args:
        path: File in a format that ``measurements.tables`` reads.
        problem: Problem that the measured kernel computes.
        templates: One kernel template, whose parameters have the names that the file uses. A parameter that is not in
            the file must have a single value.
        device: GPU of the space.

    Returns:
        The unchanged table, and the measurements of configurations that exist in the space.

    Raises:
        TableError: No configuration exists in the space, there are several templates, or the file varies an unknown
            parameter.
    """
    table = read_table(path)
    members = templates.space(problem, device).members
    if len(members) != 1:
        raise TableError(
            f"{path} has times of a single kernel, but this problem has {len(members)} templates: choose a template "
            "with --template"
        )
    ((name, space),) = members.items()
    known = {p.name for p in space.parameters}
    for parameters in table.parameters.values():
        for p in parameters:
            if p.name not in known and len(p.values) > 1:
                raise TableError(f"{path} varies {p.name}, which is not a parameter of {name}: add the parameter")
    measurements: dict[Schedule, Measurement] = {}
    for schedule, measurement in table.measurements.items():
        legal_schedule = _own(name, space, table.configuration(schedule))
        if legal_schedule is not None:
            measurements[legal_schedule] = measurement
    if not any(m.ok for m in measurements.values()):
        raise TableError(
            f"none of the {len(table.measurements)} configurations in {path} is a schedule of {name} with a time: use "
            "a file of this kernel"
        )
    return table, measurements


def _own(name: str, space: Space, recorded: Mapping[str, RawValue]) -> Schedule | None:
    """Return the schedule of a configuration; None if the space lacks a value of the configuration."""
    items: list[tuple[str, Value]] = []
    for p in space.parameters:
        if p.name not in recorded and len(p.values) > 1:
            raise TableError(
                f"the file does not state the value of {p.name}: restrict this parameter of the kernel to a single "
                "value"
            )
        value = p.values[0] if p.name not in recorded else _value(p, recorded[p.name])
        if value is None:
            return None
        items.append((p.name, value))
    return Schedule(name, tuple(items))


def _value(parameter: Parameter, recorded: RawValue) -> Value | None:
    if not parameter.is_text:
        number = float(recorded) if isinstance(recorded, (int, float)) else None
        return int(number) if number is not None and number.is_integer() and int(number) in parameter.values else None
    text = repr(float(recorded)) if isinstance(recorded, float) or parameter.kind == "ordinal" else str(recorded)
    return text if text in parameter.values else None
