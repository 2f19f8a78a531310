"""Parameters of an Optuna study as axes: the coordinate of each value, and its neighbours.

A *place* represents a value: the number itself, or the index of a choice, since a choice may be any object, such as a
list or NaN. Places have coordinates from 0 to 1. The coordinate of an unordered choice is its position, as
``cost_models.covariance`` expects.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Place = int | float
_NEAR = 0.15  # standard deviation of a mutation, as a fraction of the axis


class Axis(Protocol):
    """One parameter."""

    def place(self, value: Any) -> Place:
        """Return the place of a trial's value. A number outside the distribution gets the nearest place."""

    def value(self, place: Place) -> Any:
        """Return the value of a place."""

    def coordinate(self, place: Place) -> float:
        """Return the coordinate of a place: from 0 to 1, or the index of an unordered choice."""

    def random(self, rng: np.random.Generator) -> Place:
        """Return a random place."""

    def near(self, place: Place, rng: np.random.Generator) -> Place:
        """Return a mutated place: an adjacent ordinal value, a nearby float, or any other category."""


def axis(distribution: BaseDistribution) -> Axis:
    """Return the axis of a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return _Choices(distribution)
    if isinstance(distribution, IntDistribution):
        return _Integers(distribution)
    assert isinstance(distribution, FloatDistribution)
    return _Floats(distribution)


class _Choices:
    """Axis of choices. Ascending finite numbers form an ordinal axis, logarithmic if none is negative."""

    def __init__(self, distribution: CategoricalDistribution) -> None:
        self._found = distribution
        numbers = [c for c in distribution.choices if isinstance(c, (int, float)) and not isinstance(c, bool)]
        self._ordinal = len(numbers) == len(distribution.choices) > 1
        self._ordinal &= all(a < b for a, b in itertools.pairwise([-math.inf, *numbers, math.inf]))
        try:
            self._places = {choice: place for place, choice in reversed(list(enumerate(distribution.choices)))}
        except TypeError:  # a choice is not hashable
            self._places = {}
        self._coordinates = [float(place) for place in range(len(distribution.choices))]
        if self._ordinal:
            scale = [math.log2(1 + c) for c in numbers] if numbers[0] >= 0 else self._coordinates
            if any(
                a >= b for a, b in itertools.pairwise(scale)
            ):  # coordinates coincide, for example of 0 and 1e-30, or of 2^70 and 2^70 + 1
                scale = self._coordinates
            self._coordinates = [(s - scale[0]) / (scale[-1] - scale[0]) for s in scale]

    def place(self, value: Any) -> Place:
        try:
            return self._places[value]
        except (KeyError, TypeError):  # NaN, which equals nothing, or a value that is not hashable
            return int(self._found.to_internal_repr(value))

    def value(self, place: Place) -> Any:
        return self._found.choices[int(place)]

    def coordinate(self, place: Place) -> float:
        return self._coordinates[int(place)]

    def random(self, rng: np.random.Generator) -> Place:
        return int(rng.integers(len(self._coordinates)))

    def near(self, place: Place, rng: np.random.Generator) -> Place:
        last = len(self._coordinates) - 1
        if self._ordinal and rng.random() < 0.5:
            return min(max(int(place) + (1 if rng.random() < 0.5 else -1), 0), last)
        return (int(place) + int(rng.integers(1, last + 1))) % (last + 1)


class _Integers:
    """Axis of integers, exact also for integers that a float cannot represent."""

    def __init__(self, distribution: IntDistribution) -> None:
        self._low, self._high, self._step, self._log = (
            distribution.low,
            distribution.high,
            distribution.step,
            distribution.log,
        )

    def place(self, value: Any) -> Place:
        steps = (2 * (min(max(int(value), self._low), self._high) - self._low) + self._step) // (2 * self._step)
        return min(self._low + steps * self._step, self._high)

    def value(self, place: Place) -> Any:
        return int(place)

    def coordinate(self, place: Place) -> float:
        if self._log:
            return _between(math.log(place), math.log(self._low), math.log(self._high))
        return (int(place) - self._low) / (self._high - self._low)

    def random(self, rng: np.random.Generator) -> Place:
        if self._log:
            return self._at(rng.random())
        steps = (self._high - self._low) // self._step
        return self._low + min(int(rng.random() * (steps + 1)), steps) * self._step

    def near(self, place: Place, rng: np.random.Generator) -> Place:
        if rng.random() < 0.5:
            step = self._step if rng.random() < 0.5 else -self._step
            return min(max(int(place) + step, self._low), self._high)
        return self._at(_moved(self.coordinate(place), rng))

    def _at(self, coordinate: float) -> int:
        if self._log:
            value = round(math.exp(_along(coordinate, math.log(self._low), math.log(self._high))))
            return min(max(value, self._low), self._high)
        return self._low + round(coordinate * ((self._high - self._low) // self._step)) * self._step


class _Floats:
    def __init__(self, distribution: FloatDistribution) -> None:
        self._low, self._high, self._step, self._log = (
            distribution.low,
            distribution.high,
            distribution.step,
            distribution.log,
        )
        self._ends = (
            (math.log(distribution.low), math.log(distribution.high))
            if distribution.log
            else (distribution.low, distribution.high)
        )

    def place(self, value: Any) -> Place:
        return min(max(float(value), self._low), self._high)

    def value(self, place: Place) -> Any:
        return float(place)

    def coordinate(self, place: Place) -> float:
        return _between(math.log(place) if self._log else float(place), *self._ends)

    def random(self, rng: np.random.Generator) -> Place:
        return self._at(rng.random())

    def near(self, place: Place, rng: np.random.Generator) -> Place:
        return self._at(_moved(self.coordinate(place), rng))

    def _at(self, coordinate: float) -> float:
        at = _along(coordinate, *self._ends)
        value = math.exp(at) if self._log else at
        if self._step is not None:
            value = self._low + round((value - self._low) / self._step) * self._step
        return min(max(value, self._low), self._high)


def _between(value: float, low: float, high: float) -> float:
    """Return the position of ``value`` in a range, 0 to 1; 0 for a range too small for a float.

    Computes with half of each value, because the difference may overflow a float.
    """
    return (value / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)


def _along(coordinate: float, low: float, high: float) -> float:
    return low * (1.0 - coordinate) + high * coordinate


def _moved(coordinate: float, rng: np.random.Generator) -> float:
    return min(max(coordinate + _NEAR * float(rng.normal()), 0.0), 1.0)
