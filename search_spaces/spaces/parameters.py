"""A parameter of a schedule: its finite domain, and how it is sampled, mutated and encoded for a model.

Searches and cost models share its default, neighbours, mutation and encoding. A *code* is the index of a value in
``values``; the vectorised methods work on int64 arrays of codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray

Value = int | str


@dataclass(frozen=True)
class Parameter:
    """A named finite domain.

    ``ordinal`` values are in their natural order (neighbours are adjacent ones); ``categorical`` values have no order
    (every other value is a neighbour).

    Raises:
        ValueError: The domain is empty, a value occurs twice, types are mixed, or a default or ``before`` is outside
            the domain.
    """

    name: str
    values: tuple[Value, ...]
    doc: str = ""
    kind: Literal["ordinal", "categorical"] = "ordinal"
    chosen_default: Value | None = None
    before: Value | None = None  # value in schedules that are older than the parameter
    deeper: bool = False  # larger values hide more load latency, and are preferred among equal estimates
    at_launch: bool = False  # a launch argument: with rare exceptions, all values share one compiled module

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a parameter needs a name")
        if not self.values:
            raise ValueError(f"parameter {self.name} has no values: give it at least one")
        if not (all(type(v) is int for v in self.values) or all(type(v) is str for v in self.values)):
            raise ValueError(f"parameter {self.name} mixes types: give only integers or only strings")
        if len(set(self.values)) != len(self.values):
            twice = next(v for i, v in enumerate(self.values) if v in self.values[:i])
            raise ValueError(f"parameter {self.name} has the value {twice!r} twice: give each value once")
        if any(type(v) is int and not -(2**62) < v < 2**62 for v in self.values):
            raise ValueError(f"parameter {self.name} has a value beyond 62 bits: use smaller numbers")
        if self.kind not in ("ordinal", "categorical"):
            raise ValueError(f"parameter {self.name} has kind {self.kind!r}: use 'ordinal' or 'categorical'")
        for value in (self.chosen_default, self.before):
            if value is not None:
                self.code(value)

    @property
    def default(self) -> Value:
        """Default value: the given one, else the first."""
        return self.values[0] if self.chosen_default is None else self.chosen_default

    @property
    def is_text(self) -> bool:
        """True if the values are texts."""
        return isinstance(self.values[0], str)

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def code(self, value: Value) -> int:
        """Return the index of ``value`` in the domain. Raises ValueError that names the parameter and its domain."""
        known = None if isinstance(value, bool) else self._codes.get(value)
        if known is None:
            shown = ", ".join(map(repr, self.values[:12])) + (", ..." if len(self.values) > 12 else "")
            raise ValueError(f"parameter {self.name} cannot be {value!r}: use one of {shown}")
        return known

    def random(self, rng: np.random.Generator) -> Value:
        """Return a uniform value."""
        return self.values[int(rng.random() * len(self.values))]

    def neighbour_codes(self, code: int) -> tuple[int, ...]:
        """Return the codes of the neighbours of a code, ascending."""
        if self.kind == "categorical":
            return tuple(c for c in range(len(self.values)) if c != code)
        return tuple(c for c in (code - 1, code + 1) if 0 <= c < len(self.values))

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """Return the values next to ``value``: the adjacent ones of an ordinal, all others of a categorical.

        Raises ValueError for a value outside the domain.
        """
        return tuple(self.values[c] for c in self.neighbour_codes(self.code(value)))

    def mutate_codes(self, codes: IntArray, rng: np.random.Generator) -> IntArray:
        """Move every code to another one (shape kept; a domain of one value stays).

        Categorical: uniform over the others. Ordinal: half of the time one step up or down (inwards at an end), else
        uniform over the others. Draws two ``rng.random`` arrays, independently of the codes.
        """
        size = len(self.values)
        which, how = rng.random(codes.shape), rng.random(codes.shape)
        if size == 1:
            return codes.copy()
        other_codes = (which * (size - 1)).astype(np.int64)
        moved = other_codes + (other_codes >= codes)
        if self.kind == "categorical":
            return moved
        step = codes + np.where(which < 0.5, -1, 1)
        step = np.where(step < 0, 1, np.where(step >= size, size - 2, step))
        return np.where(how < 0.5, step, moved)

    def mutate(self, value: Value, rng: np.random.Generator) -> Value:
        """Return a mutated value, like ``mutate_codes``."""
        return self.values[int(self.mutate_codes(np.array([self.code(value)], dtype=np.int64), rng)[0])]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the columns of ``encode``.

        They are the parameter itself, or ``name=value`` for each value of a categorical parameter.
        """
        if self.kind == "categorical":
            return tuple(f"{self.name}={value}" for value in self.values)
        return (self.name,)

    @cached_property
    def _encodings(self) -> npt.NDArray[np.float32]:
        if self.kind == "categorical":
            return np.eye(len(self.values), dtype=np.float32)
        if self.is_text or any(isinstance(v, int) and v < 0 for v in self.values):
            scale = np.arange(len(self.values), dtype=np.float64)
        else:
            scale = np.log2(1.0 + np.array(self.values, dtype=np.float64))
        return scale.astype(np.float32)[:, None]

    def encode_codes(self, codes: IntArray) -> npt.NDArray[np.float32]:
        """Return ``encode`` for codes: float32 [n, width]."""
        return self._encodings[codes]

    def encode(self, values: Sequence[Value]) -> npt.NDArray[np.float32]:
        """Return values for a model, float32 [n, width], columns as in ``encoded_names``.

        Categorical: one-hot. Ordinal: log2(1 + value) for integers from 0 up (independent of the rest of the domain),
        the position in the domain for texts and domains with negative numbers. Raises ValueError for a value outside
        the domain.
        """
        return self.encode_codes(np.array([self.code(v) for v in values], dtype=np.int64))


def ordinal(
    name: str,
    values: Sequence[Value],
    doc: str = "",
    default: Value | None = None,
    before: Value | None = None,
    *,
    deeper: bool = False,
    at_launch: bool = False,
) -> Parameter:
    """Return a parameter whose values have an order, such as tile sizes.

    Args:
        name: Name in schedules.
        values: Different values, in their order.
        doc: Purpose of the parameter, in a line.
        default: Default value; None for the first.
        before: Value in schedules that are older than the parameter, or None.
        deeper: If True, larger values hide more load latency, and are preferred among schedules with equal estimates.
        at_launch: If True, the value is a launch argument, so that schedules that only differ in it share a compiled
            module.

    Returns:
        The parameter.

    Raises:
        ValueError: As Parameter raises it.
    """
    return Parameter(name, tuple(values), doc, "ordinal", default, before, deeper, at_launch)


def categorical(
    name: str,
    values: Sequence[Value],
    doc: str = "",
    default: Value | None = None,
    before: Value | None = None,
    *,
    at_launch: bool = False,
) -> Parameter:
    """Return a parameter whose values have no order, such as layouts.

    Args:
        name: Name in schedules.
        values: Different values.
        doc: Purpose of the parameter, in a line.
        default: As in ``ordinal``.
        before: As in ``ordinal``.
        at_launch: As in ``ordinal``.

    Returns:
        The parameter.

    Raises:
        ValueError: As Parameter raises it.
    """
    return Parameter(name, tuple(values), doc, "categorical", default, before, at_launch=at_launch)
