"""Coordinates of schedules for a Gaussian process, with one column per parameter name of all templates of a space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

# parameters with a value of at least this are sizes (threads or elements); parameters with only smaller values may be
# stages
LEAST_SIZE = 32

_CoordinateOf = dict[Value, float]  # maps values of a parameter to coordinates


class SpaceCoordinates:
    """Columns of a space, as coordinates of the surrogate model.

    The coordinates of an ordinal parameter range from 0 to 1. They are linear in log2(1 + value) if the parameter is a
    count, else linear in the value's index. A categorical parameter has an integer for each value. Parameters of
    different templates with the same name share a column. A parameter with a single value has no column. If a size
    parameter has values that are not powers of two, a second column has the number of factors of two of each value,
    scaled to 0 to 1. Alignment, coalescing and division without a remainder depend on this number. For example, blocks
    of 64 and 128 threads may be more alike than blocks of 64 and 80 threads.
    """

    def __init__(self, space: SearchSpace) -> None:
        members = space.members
        by_name: dict[str, list[Parameter]] = {}
        for member in members.values():
            for parameter in member.parameters:
                by_name.setdefault(parameter.name, []).append(parameter)
        columns: dict[str, list[_CoordinateOf]] = {}  # maps parameters to the names of their columns
        for name, parameters in by_name.items():
            coordinates = _coordinate_of_values(parameters)
            if len(coordinates) > 1 or 1 < len(members) != len(parameters):
                columns[name] = [coordinates, *_factors_of_two(parameters)]
        labels = [
            name if i == 0 else f"{name}, factors of two" for name, own in columns.items() for i in range(len(own))
        ]
        self.names: tuple[str, ...] = tuple(labels)
        if len(members) > 1 or not labels:
            self.names = ("template", *labels)
        first = dict(zip(columns, itertools.accumulate(map(len, columns.values()), initial=0), strict=False))
        shift = len(self.names) - len(labels)
        self._templates = {template: float(code) for code, template in enumerate(members)}
        self._columns = {
            template: [
                (shift + first[p.name] + i, position, coordinates)
                for position, p in enumerate(m.parameters)
                if p.name in columns
                for i, coordinates in enumerate(columns[p.name])
            ]
            for template, m in members.items()
        }

    def of(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Return one row per schedule, float32 [n, len(names)]; NaN if the schedule's template lacks the parameter."""
        rows = np.full((len(schedules), len(self.names)), np.nan, dtype=np.float32)
        for template, code in self._templates.items():
            own = [i for i, s in enumerate(schedules) if s.template == template]
            if not own:
                continue
            if self.names[0] == "template":
                rows[own, 0] = code
            for column, position, coordinates in self._columns[template]:
                rows[own, column] = [coordinates[schedules[i].items[position][1]] for i in own]
        return rows


def _coordinate_of_values(parameters: Sequence[Parameter]) -> _CoordinateOf:
    """For parameters that share a name, return the coordinate of each of their values."""
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


def _factors_of_two(parameters: Sequence[Parameter]) -> list[_CoordinateOf]:
    """For each value, return the exponent of the largest power of two that divides it.

    The values are those of parameters that share a name. Exponents are scaled to the range from 0 to 1. The result is
    empty if the values are not sizes, or are all powers of two.
    """
    values = dict.fromkeys(value for p in parameters for value in p.values)
    sizes = [v for v in values if isinstance(v, int) and v > 0]
    if len(sizes) < len(values) or max(sizes) < LEAST_SIZE or any(p.kind != "ordinal" for p in parameters):
        return []
    twos = [(size & -size).bit_length() for size in sizes]
    low, span = min(twos), max(twos) - min(twos)
    if not span or all(size.bit_count() == 1 for size in sizes):
        return []
    return [{size: (two - low) / span for size, two in zip(sizes, twos, strict=True)}]
