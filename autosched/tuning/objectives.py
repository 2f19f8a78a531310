"""Objectives of a search: one or several numbers of a trial, such as the time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Self

from autosched.tuning import trial_table
from autosched.tuning.trial_table import Direction, Row
from measurements.trials.measurement import Measurement
from measurements.trials.trial import Trial
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

MOST = 4  # maximum number of objectives
_LEAST_VALUE = 1e-18  # values are raised to this minimum, because their logarithms are compared
_STEPS = {1: 1, 2: 4, 3: 2, 4: 1}  # number of steps between weight 0 and weight 1, by number of objectives
_LEAST_WEIGHT = 0.05  # minimum weight, so that even the least important objective decides ties


@dataclass(frozen=True)
class Objectives:
    """Columns of ``trial_table.row``, each with the direction "min" or "max". The most important objective is first."""

    directions: tuple[tuple[str, Direction], ...] = (("seconds", "min"),)

    @classmethod
    def of(cls, objectives: str | Iterable[str] | Mapping[str, Direction] | None) -> Self:
        """Parse objectives.

        Args:
            objectives: Texts such as "seconds" or "GFLOP/s:max", or a mapping from names to directions. Default: the
                time.

        Returns:
            The objectives, the most important first.

        Raises:
            ValueError: A direction is neither min nor max, an objective is repeated, or the number of objectives is 0
                or more than MOST.
        """
        if objectives is None:
            return cls()
        texts = [objectives] if isinstance(objectives, str) else objectives
        pairs = list(texts.items()) if isinstance(texts, Mapping) else [_read(text) for text in texts]
        for name, direction in pairs:
            if direction not in ("min", "max"):
                raise ValueError(f"the direction of the objective {name} must be min or max, got {direction!r}")
        if not 1 <= len(pairs) <= MOST or len(dict(pairs)) < len(pairs):
            raise ValueError(f"invalid objectives: use 1 to {MOST} different ones")
        return cls(tuple(pairs))

    @property
    def is_time(self) -> bool:
        """True if the time is the only objective."""
        return self.directions == (("seconds", "min"),)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the objectives, the most important first."""
        return tuple(name for name, _ in self.directions)

    @property
    def needs_power(self) -> bool:
        """True if an objective needs a GPU with power measurement."""
        return any(name in trial_table.OF_POWER for name in self.names)

    def __str__(self) -> str:
        return ", ".join(f"{name} ({direction})" for name, direction in self.directions)

    def check(self, columns: Iterable[str]) -> None:
        """Raise ValueError for an objective that is not one of the ``columns``."""
        known = tuple(columns)
        for name in self.names:
            if name not in known:
                raise ValueError(f"unknown objective {name!r}: use one of {', '.join(known)}")

    def costs(self, problem: Problem, schedule: Schedule, measurement: Measurement) -> tuple[float, ...] | None:
        """Return the logarithm of each objective; smaller is better.

        Args:
            problem: Problem of the trial.
            schedule: Its schedule.
            measurement: Result of the trial.

        Returns:
            One number per objective; None if the trial failed or lacks the value of an objective.

        Raises:
            ValueError: A value is negative and therefore has no logarithm.
        """
        if measurement.timing is None:
            return None
        row = trial_table.row(problem, schedule, measurement)
        costs = []
        for name, direction in self.directions:
            value = row.get(name)
            if not isinstance(value, (int, float)) or math.isnan(value):
                return None
            if value < 0:
                raise ValueError(f"the objective {name} is {value:g}: it must be 0 or more")
            cost = math.log(max(float(value), _LEAST_VALUE))
            costs.append(cost if direction == "min" else -cost)
        return tuple(costs)

    @property
    def weights(self) -> tuple[tuple[float, ...], ...]:
        """Return weight vectors for combinations of objectives, from (almost) a single objective to equal weights.

        The schedules that are best for these weights spread over the Pareto front.
        """
        n = len(self.directions)
        steps = _STEPS[n]
        lattice = [w for w in product(range(steps + 1), repeat=n) if sum(w) == steps]
        raw = [tuple(max(w / steps, _LEAST_WEIGHT) for w in each) for each in reversed(lattice)]
        if n > 2:
            raw.append((1.0,) * n)
        return tuple(tuple(w / sum(each) for w in each) for each in raw)

    def front(self, problem: Problem, trials: Iterable[Trial]) -> list[Row]:
        """Return the rows of trials that no other trial dominates, sorted by the first objective."""
        rows = trial_table.rows(problem, trials)
        complete = [row for row in rows if all(name in row for name in self.names)]
        return trial_table.pareto(complete, dict(self.directions))


def dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Return True if ``a`` is at least as good as ``b`` in every objective, and better in at least one."""
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def _read(text: str) -> tuple[str, Direction]:
    name, colon, direction = text.rpartition(":")
    if not colon:
        return text, "min"
    return name, direction  # type: ignore[return-value]  # checked by the caller
