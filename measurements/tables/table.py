"""A table of measured configurations of one kernel on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from measurements.trials.measurement import Measurement
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.recorded_space import RecordedSpace
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace

RawValue = Value | float | bool
ESTIMATED = "the times are ESTIMATED by a model, not measured"  # note of a table with estimated times


class TableError(ValueError):
    """A file is not a table of measurements, or cannot be used. The message is one line."""


@dataclass(frozen=True)
class Row:
    """One configuration of a kernel, with parameter names and values as in its file, and its measurement."""

    kernel: str
    configuration: Mapping[str, RawValue]
    measurement: Measurement


@dataclass(frozen=True)
class Table:
    """Recorded measurements.

    ``measurements`` has every recorded schedule once, in the order of the file. ``notes`` are messages about the table,
    such as parts of the file that were skipped.

    Raises:
        TableError: Nothing was recorded, or no recorded schedule has a time.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Parameter, ...]]
    measurements: Mapping[Schedule, Measurement]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.measurements:
            raise TableError("the file has no configurations")
        if not any(m.ok for m in self.measurements.values()):
            raise TableError(f"all {len(self.measurements)} recorded configurations failed: give a file with times")

    @cached_property
    def best_seconds(self) -> float:
        """Shortest recorded time in seconds."""
        return min(m.timing.median for m in self.measurements.values() if m.timing is not None)

    def space(self, rules: Sequence[Rule] = ()) -> UnionSpace:
        """Return the recorded configurations that satisfy ``rules``, as a space to search.

        Raises EmptySpace if there are none.
        """
        kernels = self.parameters.items()
        return UnionSpace(
            RecordedSpace(Space(name, parameters, (), rules), [s for s in self.measurements if s.template == name])
            for name, parameters in kernels
        )

    def configuration(self, schedule: Schedule) -> dict[str, RawValue]:
        """Return the configuration of a schedule with the file's names and values. Floats are returned as numbers."""
        floats = {p.name for p in self.parameters[schedule.template] if is_float(p)}
        return {name: float(value) if name in floats else value for name, value in schedule.items}

    def only(self, schedules: Sequence[Schedule], note: str) -> Table:
        """Return a table with only these schedules and an additional note.

        Raises TableError as the constructor does.
        """
        wanted = set(schedules)
        measurements = {s: m for s, m in self.measurements.items() if s in wanted}
        return Table(self.kernel, self.device, self.parameters, measurements, (*self.notes, note))


def table_of(device: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Convert ``rows`` to a table.

    The first row of each kernel defines its parameters. The domain of a parameter is the set of its values in the rows.
    A parameter with only numbers is ordinal, others are categorical. If a configuration occurs twice, its last row is
    used.

    Raises TableError as ``Table`` does, and if rows of one kernel have different parameters.
    """
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        kernels.setdefault(row.kernel, []).append(row)
    parameters = {name: _parameters(name, own) for name, own in kernels.items()}
    measurements: dict[Schedule, Measurement] = {}
    for row in rows:
        items = tuple((p.name, _value(row.configuration[p.name], p)) for p in parameters[row.kernel])
        measurements[Schedule(row.kernel, items)] = row.measurement
    return Table(", ".join(kernels), device, parameters, measurements, tuple(notes))


def _parameters(kernel: str, rows: Sequence[Row]) -> tuple[Parameter, ...]:
    names = tuple(rows[0].configuration)
    if not names:
        raise TableError(f"a configuration of {kernel} has no parameters")
    for row in rows:
        if row.configuration.keys() != rows[0].configuration.keys():
            other = sorted(set(names) ^ set(row.configuration))
            raise TableError(f"configurations of {kernel} have different parameters: some have no {', '.join(other)}")
    return tuple(_parameter(name, [row.configuration[name] for row in rows]) for name in names)


def _parameter(name: str, raw_values: Sequence[RawValue]) -> Parameter:
    values = list(dict.fromkeys(raw_values))
    if all(isinstance(v, (bool, int)) or (isinstance(v, float) and v.is_integer()) for v in values):
        return Parameter(name, tuple(sorted({int(v) for v in values})))
    if all(isinstance(v, (bool, int, float)) for v in values):
        try:
            return Parameter(name, tuple(repr(v) for v in sorted({float(v) for v in values})))
        except OverflowError:
            raise TableError(
                f"parameter {name} has an integer beyond the range of float: use smaller numbers"
            ) from None
    return Parameter(name, tuple(dict.fromkeys(str(v) for v in values)), kind="categorical")


def _value(raw: RawValue, parameter: Parameter) -> Value:
    if not parameter.is_text:
        return int(raw)
    return repr(float(raw)) if is_float(parameter) else str(raw)


def is_float(parameter: Parameter) -> bool:
    """Return True if a parameter's values represent floats.

    A parameter cannot have float values, so floats are stored as text.
    """
    return parameter.is_text and parameter.kind == "ordinal"
