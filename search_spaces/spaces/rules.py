"""What a template says about its space: derived columns, and named rules for what is legal.

The functions of attributes and rules are pure and total: a space evaluates them on any combination of values that
their inputs can take, including combinations that another rule refuses, so they must not raise or divide by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.parameters import Value


@dataclass(frozen=True)
class Attribute:
    """A derived int64 column: ``compute`` gets the columns in ``needs`` (parameters or attributes) and gives one
    integer per row, |value| < 2**62."""

    name: str
    needs: tuple[str, ...]
    compute: Callable[[Columns], IntArray]
    doc: str = ""

    def __post_init__(self) -> None:
        _check("attribute", self.name, self.needs)

    def evaluate(self, columns: Columns) -> IntArray:
        """``compute`` with its result checked. Raises ValueError for a wrong shape or type."""
        array = np.asarray(self.compute(columns))
        if array.shape != (len(columns),) or array.dtype.kind not in "iub":
            raise ValueError(
                f"attribute {self.name} gave {array.dtype} {array.shape}: give {len(columns)} integers, one for each"
                " row"
            )
        return array.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Rule:
    """A predicate over the columns in ``needs`` (parameters or attributes).

    ``allows`` gives one bool per row, True where legal. ``reason`` gets the values of ``needs`` for one refused
    configuration and says in a sentence why it is refused.
    """

    name: str
    needs: tuple[str, ...]
    allows: Callable[[Columns], BoolArray]
    reason: Callable[[Mapping[str, Value]], str]
    doc: str = ""

    def __post_init__(self) -> None:
        _check("rule", self.name, self.needs)

    def evaluate(self, columns: Columns) -> BoolArray:
        """``allows`` with its result checked. Raises ValueError for a wrong shape or type."""
        array = np.asarray(self.allows(columns))
        if array.shape != (len(columns),) or array.dtype != np.bool_:
            raise ValueError(
                f"rule {self.name} gave {array.dtype} {array.shape}: give {len(columns)} bools, one for each row"
            )
        return array


def integer(values: Mapping[str, Value], name: str) -> int:
    """The value of an integer column among those passed to a ``reason``. Raises TypeError for a text one."""
    value = values[name]
    if not isinstance(value, int):
        raise TypeError(f"parameter {name} is {value!r}, not an integer")
    return value


@dataclass(frozen=True)
class Violation:
    """A rule that a configuration breaks, and why."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Rejection:
    """``count`` of the ``raw`` configurations of the whole product are refused by ``rule`` taken alone."""

    rule: str
    count: int
    raw: int


def _check(kind: str, name: str, needs: tuple[str, ...]) -> None:
    if not name:
        raise ValueError(f"a {kind} needs a name")
    if not needs:
        raise ValueError(f"{kind} {name} needs at least one column to look at")
    if len(set(needs)) != len(needs):
        raise ValueError(f"{kind} {name} lists a column twice in `needs`")
