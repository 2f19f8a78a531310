"""Schedules as coordinates for a Gaussian process: one column per parameter name, over all templates of a space."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


class Coordinates:
    """The columns of a space: an ordinal parameter from 0 to 1, by log2(1 + value) where it counts something, else by
    its position; a categorical one by a whole number for each value. Templates share the columns of parameters that
    they call by one name. A parameter with a single value has no column.
    """

    def __init__(self, space: SearchSpace) -> None:
        members = space.members
        by_name: dict[str, list[Parameter]] = {}
        for member in members.values():
            for parameter in member.parameters:
                by_name.setdefault(parameter.name, []).append(parameter)
        places = {name: _places(parameters) for name, parameters in by_name.items()}
        varied = [n for n, at in places.items() if len(at) > 1 or 1 < len(members) != len(by_name[n])]
        self.names: tuple[str, ...] = tuple(varied)
        if len(members) > 1 or not varied:
            self.names = ("template", *varied)
        first = len(self.names) - len(varied)
        column = {name: first + i for i, name in enumerate(varied)}
        self._templates = {template: float(code) for code, template in enumerate(members)}
        self._columns = {
            template: [(column[p.name], i, places[p.name]) for i, p in enumerate(m.parameters) if p.name in column]
            for template, m in members.items()
        }

    def of(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """One row per schedule, float32 [n, len(names)]; NaN where its template has no such parameter."""
        rows = np.full((len(schedules), len(self.names)), np.nan, dtype=np.float32)
        for template, code in self._templates.items():
            own = [i for i, s in enumerate(schedules) if s.template == template]
            if not own:
                continue
            if self.names[0] == "template":
                rows[own, 0] = code
            for column, position, places in self._columns[template]:
                rows[own, column] = [places[schedules[i].items[position][1]] for i in own]
        return rows


def _places(parameters: Sequence[Parameter]) -> dict[Value, float]:
    """The coordinate of each value that one of the parameters, all of one name, may take."""
    values = list(dict.fromkeys(value for p in parameters for value in p.values))
    numbers = [v for v in values if isinstance(v, int)]
    ordered = all(p.kind == "ordinal" for p in parameters)
    if ordered and len(numbers) == len(values) and min(numbers) >= 0:
        scale = [math.log2(1 + v) for v in numbers]
    elif ordered and (len(numbers) == len(values) or len({p.values for p in parameters}) == 1):
        values = sorted(numbers) if numbers else values
        scale = [float(i) for i in range(len(values))]
    else:
        return {value: float(code) for code, value in enumerate(values)}
    low, span = min(scale), (max(scale) - min(scale)) or 1.0
    return {value: (at - low) / span for value, at in zip(values, scale, strict=True)}
