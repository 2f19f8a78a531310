"""Complete schedules of tile programs from the few values that a test specifies."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.hardware.devices import Device
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

Values = dict[str, int | str]


def operand(name: str, layout: str, columns: int, vector: int = 8) -> Values:
    """Return the schedule values with which a kernel copies the operand ``name`` to shared memory with cp.async."""
    return {
        f"layout_{name}": layout,
        f"copy_{name}": "cp.async",
        f"vector_{name}": vector,
        f"copy_columns_{name}": columns,
    }


def filled(p: ProgramProblem, values: Mapping[str, int | str], on: Device) -> Schedule:
    """Return a schedule with the given ``values``.

    Values of parameters that the space lacks are ignored. ``values`` must contain all parameters of the space that have
    more than one possible value.
    """
    parameters = template(p.program).space(p, on).parameters
    known = {q.name for q in parameters}
    return Schedule.from_json(
        p.program.name,
        {q.name: q.values[0] for q in parameters if len(q.values) == 1}
        | {name: value for name, value in values.items() if name in known},
    )
