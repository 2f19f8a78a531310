"""Training data of a model: times of schedules of one problem on one device, in a compact form for model files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from search_spaces.catalogue import problem_from_json, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

MOST_SECONDS = 1e6
_FAR = 4  # a size is called long or short if it differs by at least this factor from every other size


@dataclass(frozen=True)
class Observations:
    """Times of different schedules of a problem on a device.

    Raises:
        ValueError: There are no rows, a time is not positive and finite, a schedule occurs twice, or the numbers of
            times and schedules differ.
    """

    problem: Problem
    device: Device
    schedules: tuple[Schedule, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.schedules or len(self.schedules) != len(self.seconds):
            raise ValueError(f"{len(self.schedules)} schedules, but {len(self.seconds)} times")
        if len(set(self.schedules)) != len(self.schedules):
            raise ValueError("a schedule is observed twice")
        if not all(0 < s < MOST_SECONDS for s in self.seconds):
            raise ValueError("a time must be a positive number of seconds")

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def key(self) -> tuple[str, str]:
        """Key of the problem, and name of the device."""
        return self.problem.key(), self.device.name

    def updated(self, newer: Self) -> Self:
        """Add the observations of ``newer``, whose times replace existing times of the same schedules."""
        times = dict(zip(self.schedules, self.seconds, strict=True))
        times.update(zip(newer.schedules, newer.seconds, strict=True))
        return dataclasses.replace(self, schedules=tuple(times), seconds=tuple(times.values()))

    def usable(self) -> tuple[Self | None, int]:
        """Remove schedules that the current kernel templates cannot generate, or whose templates have no cost counts.

        Returns:
            The remaining observations (None if there are none), and the number of removed schedules.
        """
        templates = self.templates()
        usable = {}
        for schedule, seconds in zip(self.schedules, self.seconds, strict=True):
            try:
                template = templates.of(schedule)
                config = template.config(self.problem, schedule, self.device)
                if template.counts is not None:
                    template.counts(self.problem, config, self.device)
                    usable[schedule] = seconds
            except ValueError:
                continue
        if not usable:
            return None, len(self)
        observations = dataclasses.replace(self, schedules=tuple(usable), seconds=tuple(usable.values()))
        return observations, len(self) - len(observations)

    def templates(self) -> TemplateSet:
        """Return the kernel templates that can compute the problem and have cost counts. The result may be empty."""
        try:
            usable = templates_for(self.problem, self.device)
        except ValueError:
            return TemplateSet(())
        return TemplateSet([t for t in usable if t.counts is not None])

    def to_json(self) -> dict[str, Any]:
        """Return JSON values: one table per kernel template, with a row per schedule."""
        tables: dict[tuple[str, tuple[str, ...]], tuple[list[list[Any]], list[float]]] = {}
        for schedule, seconds in zip(self.schedules, self.seconds, strict=True):
            names = tuple(name for name, _ in schedule.items)
            rows, times = tables.setdefault((schedule.template, names), ([], []))
            rows.append([value for _, value in schedule.items])
            times.append(seconds)
        return {
            "problem": self.problem.to_json(),
            "device": self.device.name,
            "tables": [
                {"template": template, "parameters": list(names), "rows": rows, "seconds": times}
                for (template, names), (rows, times) in tables.items()
            ],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the observations whose ``to_json()`` was ``data``.

        Raises:
            ValueError: The data are malformed. The message is one line.
        """
        try:
            schedules: list[Schedule] = []
            seconds: list[float] = []
            for table in data["tables"]:
                names = table["parameters"]
                for row, time in zip(table["rows"], table["seconds"], strict=True):
                    if type(time) not in (int, float):
                        raise ValueError(f"{time!r:.40} is not a time")
                    schedules.append(Schedule.from_json(table["template"], dict(zip(names, row, strict=True))))
                    seconds.append(float(time))
            problem = problem_from_json(data["problem"])
            return cls(problem, device_row(data["device"]), tuple(schedules), tuple(seconds))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"the observations are malformed: {type(error).__name__} {error}") from error


def shape_family(problem: Problem) -> str:
    """Describe the operator and the shape, for example "matmul, short m", "softmax, long rows" or "matmul, balanced".

    Only required sizes count. A size is long if it is at least four times every other size. If there are three or more
    sizes, a size is short if it is at most a quarter of every other size.
    """
    values = problem.to_json()
    required = [f.name for f in dataclasses.fields(problem) if f.default is dataclasses.MISSING]
    sizes = sorted((values[n], n) for n in required if isinstance(values.get(n), int))
    words = []
    if len(sizes) > 1 and sizes[-1][0] >= _FAR * sizes[-2][0]:
        words.append(f"long {sizes[-1][1]}")
    if len(sizes) > 2 and sizes[0][0] * _FAR <= sizes[1][0]:
        words.append(f"short {sizes[0][1]}")
    return f"{problem.operator}, {' and '.join(words) or 'balanced'}"


def merged(observations: Sequence[Observations]) -> tuple[Observations, ...]:
    """Merge observations of the same problem and device. Later times replace earlier times. The result is sorted."""
    by_key: dict[tuple[str, str], Observations] = {}
    for one in observations:
        by_key[one.key] = by_key[one.key].updated(one) if one.key in by_key else one
    return tuple(_sorted(by_key[key]) for key in sorted(by_key))


def _sorted(one: Observations) -> Observations:
    """Sort the schedules by key, so that a model does not depend on the order of its sources."""
    rows = sorted(zip(one.schedules, one.seconds, strict=True), key=lambda row: row[0].key())
    return dataclasses.replace(one, schedules=tuple(s for s, _ in rows), seconds=tuple(t for _, t in rows))
