"""Axes: coordinates, mutations and random values for each parameter of an Optuna study.

A *code* represents a value. The code of a number is the number itself. The code of a choice is its index, because a
choice may be any object, such as a list or NaN. Numbers and ordered choices have coordinates from 0 to 1. The
coordinate of an unordered choice is its index, as ``cost_models.covariance`` expects.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Code = int | float
_NEAR = 0.15  # standard deviation of a mutation, as a fraction of the axis


class Axis(Protocol):
    """Interface of an axis, which represents one parameter."""

    def code(self, value: Any) -> Code:
        """Return the code of a trial's value; for a number outside the distribution, the nearest code."""

    def value(self, code: Code) -> Any:
        """Return the value of a code."""

    def coordinate(self, code: Code) -> float:
        """Return the coordinate of a code: from 0 to 1, or the index of an unordered choice."""

    def random(self, rng: np.random.Generator) -> Code:
        """Return a random code."""

    def near(self, code: Code, rng: np.random.Generator) -> Code:
        """Return a mutation of a code: an adjacent ordinal value, a nearby float, or any other category."""


def axis(distribution: BaseDistribution) -> Axis:
    """Return the axis of a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return _Choices(distribution)
    if isinstance(distribution, IntDistribution):
        return _Integers(distribution)
    assert isinstance(distribution, FloatDistribution)
    return _Floats(distribution)


class _Choices:
    """Axis of choices. Ascending finite numbers are an ordinal axis, which is logarithmic if no number is negative."""

    def __init__(self, distribution: CategoricalDistribution) -> None:
        self._distribution = distribution
        numbers = [c for c in distribution.choices if isinstance(c, (int, float)) and not isinstance(c, bool)]
        self._ordinal = len(numbers) == len(distribution.choices) > 1
        self._ordinal &= all(a < b for a, b in itertools.pairwise([-math.inf, *numbers, math.inf]))
        try:
            self._codes = {choice: code for code, choice in reversed(list(enumerate(distribution.choices)))}
        except TypeError:  # raised if a choice is not hashable
            self._codes = {}
        self._coordinates = [float(code) for code in range(len(distribution.choices))]
        if self._ordinal:
            scale = [math.log2(1 + c) for c in numbers] if numbers[0] >= 0 else self._coordinates
            # some choices have equal coordinates, for example 0 and 1e-30, or 2^70 and 2^70 + 1
            if any(a >= b for a, b in itertools.pairwise(scale)):
                scale = self._coordinates
            self._coordinates = [(s - scale[0]) / (scale[-1] - scale[0]) for s in scale]

    def code(self, value: Any) -> Code:
        try:
            return self._codes[value]
        except (KeyError, TypeError):  # for NaN, which is not equal to itself, or a value that is not hashable
            return int(self._distribution.to_internal_repr(value))

    def value(self, code: Code) -> Any:
        return self._distribution.choices[int(code)]

    def coordinate(self, code: Code) -> float:
        return self._coordinates[int(code)]

    def random(self, rng: np.random.Generator) -> Code:
        return int(rng.integers(len(self._coordinates)))

    def near(self, code: Code, rng: np.random.Generator) -> Code:
        last = len(self._coordinates) - 1
        if self._ordinal and rng.random() < 0.5:
            return min(max(int(code) + (1 if rng.random() < 0.5 else -1), 0), last)
        return (int(code) + int(rng.integers(1, last + 1))) % (last + 1)


class _Integers:
    """Axis of integers. Also exact for integers that a float cannot represent."""

    def __init__(self, distribution: IntDistribution) -> None:
        self._low, self._high, self._step, self._log = (
            distribution.low,
            distribution.high,
            distribution.step,
            distribution.log,
        )

    def code(self, value: Any) -> Code:
        steps = (2 * (min(max(int(value), self._low), self._high) - self._low) + self._step) // (2 * self._step)
        return min(self._low + steps * self._step, self._high)

    def value(self, code: Code) -> Any:
        return int(code)

    def coordinate(self, code: Code) -> float:
        if self._log:
            return _between(math.log(code), math.log(self._low), math.log(self._high))
        return (int(code) - self._low) / (self._high - self._low)

    def random(self, rng: np.random.Generator) -> Code:
        if self._log:
            return self._at(rng.random())
        steps = (self._high - self._low) // self._step
        return self._low + min(int(rng.random() * (steps + 1)), steps) * self._step

    def near(self, code: Code, rng: np.random.Generator) -> Code:
        if rng.random() < 0.5:
            step = self._step if rng.random() < 0.5 else -self._step
            return min(max(int(code) + step, self._low), self._high)
        return self._at(_moved(self.coordinate(code), rng))

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

    def code(self, value: Any) -> Code:
        return min(max(float(value), self._low), self._high)

    def value(self, code: Code) -> Any:
        return float(code)

    def coordinate(self, code: Code) -> float:
        return _between(math.log(code) if self._log else float(code), *self._ends)

    def random(self, rng: np.random.Generator) -> Code:
        return self._at(rng.random())

    def near(self, code: Code, rng: np.random.Generator) -> Code:
        return self._at(_moved(self.coordinate(code), rng))

    def _at(self, coordinate: float) -> float:
        at = _along(coordinate, *self._ends)
        value = math.exp(at) if self._log else at
        if self._step is not None:
            value = self._low + round((value - self._low) / self._step) * self._step
        return min(max(value, self._low), self._high)


def _between(value: float, low: float, high: float) -> float:
    """Return the relative position of ``value`` in a range, from 0 to 1; 0 if the range's length rounds to 0.

    All values are halved first, because a difference may overflow a float.
    """
    return (value / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)


def _along(coordinate: float, low: float, high: float) -> float:
    return low * (1.0 - coordinate) + high * coordinate


def _moved(coordinate: float, rng: np.random.Generator) -> float:
    return min(max(coordinate + _NEAR * float(rng.normal()), 0.0), 1.0)
