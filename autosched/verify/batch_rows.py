"""Rows of a batch: find them in arrays, move them, and compare them bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.arrays import Array
from search_spaces.operators.problem import Problem


class NoBatch(ValueError):
    """A problem has no batch size, or its rows cannot be located in its arrays."""


@dataclass(frozen=True)
class BatchRows:
    """The axis of each array along which the rows of a batch are stored.

    Attributes:
        name: Name of the problem's batch size.
        size: Number of rows.
        axes: Axis of the rows in each array, by name; None for an array that all rows share.
        load: Converts the stored values of an array to float64, by name.
    """

    name: str
    size: int
    axes: Mapping[str, int | None]
    load: Mapping[str, Callable[[Array], Any]]

    @classmethod
    def of(cls, problem: Problem) -> BatchRows:
        """Find the row axis of each array: the axis whose extent changes if the problem has one row more or less.

        Raises:
            NoBatch: The problem has no batch size, or an array's number of rows differs from the batch size.
        """
        if not problem.batch_sizes:
            raise NoBatch(f"{problem.operator} has no batch size")
        name = next(iter(problem.batch_sizes))
        size: int = getattr(problem, name)
        other = _neighbour(problem, size)
        axes: dict[str, int | None] = {}
        for operand, other_operand in zip(problem.operands(), other.operands(), strict=True):
            changed = [
                axis
                for axis, pair in enumerate(zip(operand.shape, other_operand.shape, strict=True))
                if len(set(pair)) > 1
            ]
            if len(changed) > 1 or (changed and operand.shape[changed[0]] != size):
                raise NoBatch(f"{operand.name} of shape {operand.shape} has no single axis of {name} = {size} rows")
            axes[operand.name] = changed[0] if changed else None
        return cls(name, size, axes, {o.name: o.dtype.load for o in problem.operands()})

    def take(self, arrays: Mapping[str, Array], rows: Sequence[int]) -> dict[str, Array]:
        """Return the arrays with only these rows, in this order. Arrays that all rows share are unchanged."""
        return {name: self._take(name, array, rows) for name, array in arrays.items() if name in self.axes}

    def _take(self, name: str, array: Array, rows: Sequence[int]) -> Array:
        axis = self.axes[name]
        return array if axis is None else np.ascontiguousarray(np.take(array, rows, axis=axis))

    def difference(self, outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
        """Describe the first output element whose bits differ from the expected bits, or return "" if none differs.

        NaN equals NaN. Both arguments have the same rows in the same order.
        """
        for name, reference in expected.items():
            actual = outputs[name]
            bits = np.dtype(f"u{actual.dtype.itemsize}")
            differ = np.ascontiguousarray(actual).view(bits) != np.ascontiguousarray(reference).view(bits)
            if not differ.any():
                continue
            values, expected_values = self.load[name](actual), self.load[name](reference)
            differ &= ~(np.isnan(values) & np.isnan(expected_values))
            if differ.any():
                index = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), actual.shape))
                row = "" if (axis := self.axes[name]) is None else f"row {index[axis]} of "
                return (
                    f"{row}{name} differs at {list(index)}: {float(values[index])!r}, not "
                    f"{float(expected_values[index])!r} ({int(differ.sum())} of {actual.size} elements differ)"
                )
        return ""


def _neighbour(problem: Problem, size: int) -> Problem:
    """Return the problem with one row more, or with one row less if it already has the maximum number of rows."""
    try:
        return problem.of_batch(size + 1)
    except ValueError:
        return problem.of_batch(size - 1)
