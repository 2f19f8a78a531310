"""Parameters of schedules: finite domains, with sampling, mutation and encoding for models.

Searches and cost models use the same defaults, neighbours, mutations and encodings. A *code* is the index of a value in
``values``. Vectorised methods work on int64 arrays of codes.
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
    """A parameter: a named finite domain.

    The values of an ``ordinal`` parameter are in their natural order, and adjacent values are neighbours. The values of
    a ``categorical`` parameter have no order, and each value is a neighbour of all others.

    Raises:
        ValueError: The domain is empty, a value occurs twice, types are mixed, or the default or ``before`` is not in
            the domain.
    """

    name: str
    values: tuple[Value, ...]
    doc: str = ""
    kind: Literal["ordinal", "categorical"] = "ordinal"
    chosen_default: Value | None = None
    before: Value | None = None  # value for schedules that were stored before the parameter existed
    deeper: bool = False  # True if larger values hide more load latency; they are then preferred if estimates are equal
    at_launch: bool = False  # True for a launch argument: with rare exceptions, all values share one compiled module

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
        """Default value: the specified default, or the first value."""
        return self.values[0] if self.chosen_default is None else self.chosen_default

    @property
    def is_text(self) -> bool:
        """True if the values are texts."""
        return isinstance(self.values[0], str)

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def code(self, value: Value) -> int:
        """Return the index of ``value`` in the domain. Raises ValueError, which names the parameter and its domain."""
        known = None if isinstance(value, bool) else self._codes.get(value)
        if known is None:
            shown = ", ".join(map(repr, self.values[:12])) + (", ..." if len(self.values) > 12 else "")
            raise ValueError(f"parameter {self.name} cannot be {value!r}: use one of {shown}")
        return known

    def random(self, rng: np.random.Generator) -> Value:
        """Return a random value; all values are equally likely."""
        return self.values[int(rng.random() * len(self.values))]

    def neighbour_codes(self, code: int) -> tuple[int, ...]:
        """Return the codes of the neighbours of a code, in ascending order."""
        if self.kind == "categorical":
            return tuple(c for c in range(len(self.values)) if c != code)
        return tuple(c for c in (code - 1, code + 1) if 0 <= c < len(self.values))

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """Return the neighbours of ``value``: adjacent ones if ordered, all other values if categorical.

        Raises ValueError for a value outside the domain.
        """
        return tuple(self.values[c] for c in self.neighbour_codes(self.code(value)))

    def mutate_codes(self, codes: IntArray, rng: np.random.Generator) -> IntArray:
        """Replace every code by a random different code. If the domain has a single value, codes stay.

        For a categorical parameter, all other codes are equally likely. For an ordinal parameter, half of the moves are
        one step up or down (at an end of the domain, inwards), and half are to any other code. Always draws two
        ``rng.random`` arrays, whatever the codes are.
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
        """Return a random value other than ``value``, with the probabilities of ``mutate_codes``."""
        return self.values[int(self.mutate_codes(np.array([self.code(value)], dtype=np.int64), rng)[0])]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the columns of ``encode``.

        For an ordinal parameter, this is the parameter's name; for a categorical one, ``name=value`` for each value.
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
        """Encode values as ``encode`` does, given their codes: float32 [n, width]."""
        return self._encodings[codes]

    def encode(self, values: Sequence[Value]) -> npt.NDArray[np.float32]:
        """Encode values for a model, as float32 [n, width] with the columns ``encoded_names``.

        Categorical values are one-hot. Ordinal integers become log2(1 + value), which does not depend on other values
        of the domain. Texts, and integers of a domain with negative numbers, become the index in the domain. Raises
        ValueError if a value is not in the domain.
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
        doc: Purpose of the parameter, in one line.
        default: Default value; None for the first value.
        before: Value for schedules that were stored before the parameter existed, or None.
        deeper: True if larger values hide more load latency. If estimates are equal, larger values are then preferred.
        at_launch: True if the value is a launch argument. Schedules that differ only in launch arguments share a
            compiled module.

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
        doc: Purpose of the parameter, in one line.
        default: As in ``ordinal``.
        before: As in ``ordinal``.
        at_launch: As in ``ordinal``.

    Returns:
        The parameter.

    Raises:
        ValueError: As Parameter raises it.
    """
    return Parameter(name, tuple(values), doc, "categorical", default, before, at_launch=at_launch)
