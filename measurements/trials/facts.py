"""Facts about a user's problem. Trials store them for reports, which do not have the kernel file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from measurements.files.text import printable
from search_spaces.operators.problem import Problem

_MOST_METRICS = 100


@dataclass(frozen=True)
class ProblemFacts:
    """Readable name of the problem, and its costs.

    ``flops`` and ``min_bytes`` are counts for one launch. ``multiplied_as`` is the type that tensor cores multiply, or
    "". ``metrics`` are the values of the kernel file's metrics at the time of the trial, by name and unit. Raises
    ValueError if the name cannot be printed, or a number is not finite.
    """

    name: str
    flops: float
    min_bytes: float
    multiplied_as: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for text in (self.name, self.multiplied_as, *self.metrics):
            printable(text)
        numbers = (self.flops, self.min_bytes, *self.metrics.values())
        if not all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers):
            raise ValueError("flops, min_bytes and metrics of a problem must be finite numbers")
        if self.flops < 0 or self.min_bytes <= 0 or len(self.metrics) > _MOST_METRICS:
            raise ValueError(f"a problem needs min_bytes > 0, flops >= 0 and at most {_MOST_METRICS} metrics")

    @classmethod
    def of(cls, problem: Problem, config: Mapping[str, int | str], seconds: float | None) -> Self | None:
        """Return the facts of a problem. Metrics are evaluated with a schedule's values.

        Return None if the problem's JSON already has all facts, or if a fact is not finite.
        """
        name = problem.described
        if not name:
            return None
        metrics: Mapping[str, float] = {}
        try:
            if seconds is not None:
                metrics = dict(problem.metrics(config, seconds))
            return cls(name, problem.flops, problem.min_bytes, getattr(problem, "multiplied_as", ""), metrics)
        except ValueError:  # the metric is undefined for these values
            return None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read facts from a JSON object. Raises ValueError if a field is unknown or missing."""
        if set(data) != set(cls.__dataclass_fields__) or not isinstance(data["metrics"], dict):
            raise ValueError("the facts of a problem are its name, flops, min_bytes, multiplied_as and metrics")
        return cls(**data)
