"""Trials as a table with parameters, time, resources and every metric, for CSV, pandas and Pareto fronts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from measurements.trials.measurement import Measurement
from measurements.trials.trial import Trial
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

Direction = Literal["min", "max"]
Row = dict[str, Any]
OF_POWER = ("watts", "joules")  # columns that require a GPU with power measurement
NUMBERS = ("seconds", "registers", "spill_bytes", "static_shared_bytes", *OF_POWER)  # columns that every problem has


def rows(problem: Problem, trials: Iterable[Trial]) -> list[Row]:
    """Return one ``row`` per trial."""
    return [row(problem, trial.schedule, trial.measurement) for trial in trials]


def row(problem: Problem, schedule: Schedule, measurement: Measurement) -> Row:
    """Return a trial as a row.

    The row has ``status``, ``provenance``, ``seconds`` (None without a time), registers, spills, static shared memory,
    and every parameter and metric by name. If power was measured, it also has ``watts`` and ``joules`` per launch.
    """
    timing, resources = measurement.timing, measurement.resources
    seconds = None if timing is None else timing.median
    columns: Row = {
        "status": measurement.status.value,
        "provenance": measurement.provenance.value,
        "seconds": seconds,
        "registers": None if resources is None else resources.registers,
        "spill_bytes": None if resources is None else resources.spill_store_bytes + resources.spill_load_bytes,
        "static_shared_bytes": None if resources is None else resources.static_shared_bytes,
    }
    if measurement.watts is not None and seconds is not None:
        columns |= {"watts": measurement.watts, "joules": measurement.watts * seconds}
    columns |= schedule.values
    return columns if seconds is None else columns | metrics(problem, schedule, seconds)


def metrics(problem: Problem, schedule: Schedule, seconds: float) -> dict[str, float]:
    """Return the metrics of a trial by name; empty if a metric is undefined."""
    with suppress(ValueError):
        return dict(problem.metrics(schedule.values, seconds))
    return {}


def write_csv(path: str | Path, table: Sequence[Row]) -> None:
    """Write the rows as CSV, with a column for each key that occurs in any row. Raises OSError."""
    columns = list(dict.fromkeys(key for row in table for key in row))
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(table)


def best_by(table: Sequence[Row], objective: str, direction: Direction = "min") -> Row | None:
    """Return the row that is best by one column; None if no row has a number in this column.

    Raises:
        ValueError: There is no such column.
    """
    usable = _usable(table, {objective: direction})
    sign = 1 if direction == "min" else -1
    return min(usable, key=lambda row: sign * row[objective], default=None)


def pareto(table: Sequence[Row], objectives: Mapping[str, Direction]) -> list[Row]:
    """Return the rows that no other row dominates, sorted by the first objective.

    Raises ValueError for a column that no row has, and for a direction that is neither "min" nor "max".
    """
    signs = {name: 1 if direction == "min" else -1 for name, direction in objectives.items()}
    usable = _usable(table, objectives)
    points = [tuple(signs[name] * row[name] for name in objectives) for row in usable]
    front = [
        (point, row)
        for point, row in zip(points, usable, strict=True)
        if not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)
    ]
    return [row for _, row in sorted(front, key=lambda pair: pair[0])]


def _usable(table: Sequence[Row], objectives: Mapping[str, Direction]) -> list[Row]:
    if not objectives:
        raise ValueError("no objective given: pass at least one column with min or max")
    columns = dict.fromkeys(key for row in table for key in row)
    for name, direction in objectives.items():
        if direction not in ("min", "max"):
            raise ValueError(f"the direction of {name} must be min or max, got {direction!r}")
        if table and name not in columns:
            raise ValueError(f"unknown column {name!r}: use one of {', '.join(columns)}")
    return [row for row in table if all(isinstance(row.get(name), (int, float)) for name in objectives)]
