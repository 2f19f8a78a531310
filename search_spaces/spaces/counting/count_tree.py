"""Result of variable elimination: exact counts, and conversion of ranks to configurations.

A step eliminates parameters and produces one table, whose rows are grouped. Each row of the table assigns values to
some parameters, and refers to one group in each child step. The count of a row is the product of the total counts of
these groups. Unranking goes from the last step to the first: the rank within a group selects a row by the cumulative
counts, and the remainder of the rank is split among the row's children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.spaces.counting.tables import Codes
from search_spaces.spaces.parameters import Value

Counts = npt.NDArray[Any]  # dtype int64, or object (Python ints) if a total may exceed 62 bits

_SAFE = 2**62


@dataclass(frozen=True, eq=False)
class Step:
    """Table of one elimination step. The rows are grouped, and ``starts[g]`` is the first row of group g.

    ``running`` are the cumulative counts of the rows over all groups; None if every row has the count 1.
    """

    values: Mapping[str, Codes]
    starts: IntArray
    running: Counts | None
    totals: Counts
    children: tuple[tuple[int, Codes], ...]
    is_root: bool

    @classmethod
    def make(
        cls,
        values: Mapping[str, Codes],
        starts: IntArray,
        rows: int,
        children: tuple[tuple[Step, int, Codes], ...],
        is_root: bool,
    ) -> Self:
        """Compute the counts of a step's groups.

        Args:
            values: Codes of the step's parameters in each row.
            starts: First row of each group.
            rows: Number of rows.
            children: Earlier steps that the rows refer to. Each entry has the step, its index, and the step's group
                for each row.
            is_root: True for the last step.
        """
        below = tuple((number, groups) for _, number, groups in children)
        ends = np.append(starts[1:], rows)
        if all(step.counts_one for step, _, _ in children):
            return cls(values, starts, None, ends - starts, below, is_root)
        weights = [step.totals[groups] for step, _, groups in children]
        if _fits(rows, weights):
            product: Counts = np.ones(rows, dtype=np.int64)
        else:
            product = np.ones(rows, dtype=object)
        for weight in weights:
            product = product * weight
        running = np.cumsum(product)
        last = running[ends - 1]
        totals = last.copy()
        totals[1:] -= last[:-1]
        return cls(values, starts, running, totals, below, is_root)

    @cached_property
    def counts_one(self) -> bool:
        """True if each group stands for exactly one configuration."""
        return self.totals.dtype != object and bool((self.totals == 1).all())


def _fits(rows: int, weights: Sequence[Counts]) -> bool:
    """Return True if it is certain that the total count fits in int64.

    The total count is the sum, over all rows, of the product of the row's weights.
    """
    bound = rows
    for weight in weights:
        bound *= int(weight.max(initial=0))
    if bound < _SAFE:
        return True
    if any(weight.dtype == object for weight in weights):
        return False
    product = np.ones(rows)
    for weight in weights:
        product *= weight
    return float(product.sum()) < _SAFE


@dataclass(frozen=True, eq=False)
class CountTree:
    """All elimination steps (children before parents) and the domains of parameters. An empty space has no steps."""

    steps: tuple[Step, ...]
    domains: Mapping[str, tuple[Value, ...]]

    @cached_property
    def count(self) -> int:
        """Number of legal configurations."""
        count = 1 if self.steps else 0
        for step in self.steps:
            if step.is_root:
                count *= int(step.totals[0])
        return count

    def ranges(self, held: Sequence[str]) -> dict[tuple[int, ...], range]:
        """Return the range of ranks for each combination of codes of the parameters ``held``.

        ``held`` are the parameters that were eliminated last. Combinations without a legal configuration are omitted.
        """
        if not self.steps:
            return {}
        last = self.steps[-1]
        codes = list(zip(*(last.values[name].tolist() for name in held), strict=True))
        ends = [int(end) for end in last.running] if last.running is not None else list(range(1, len(codes) + 1))
        below = self.count // ends[-1]  # the last root step determines the most significant digit of a rank
        return {
            code: range(below * first, below * end) for code, first, end in zip(codes, [0, *ends], ends, strict=False)
        }

    def unrank(self, ranks: Sequence[int] | npt.NDArray[Any]) -> dict[str, IntArray]:
        """Return the codes of the configurations with these ranks. Each rank must be in [0, count).

        Raises ValueError for a rank out of range.
        """
        rest = self._checked(ranks)
        nothing = np.zeros(len(rest), dtype=np.int64)
        at: dict[int, tuple[IntArray, Counts]] = {}
        for number, step in enumerate(self.steps):
            if step.is_root:
                total = int(step.totals[0])
                at[number] = nothing, rest % total if total > 1 else nothing
                rest = rest // total if total > 1 else rest
        codes: dict[str, IntArray] = {}
        for number in range(len(self.steps) - 1, -1, -1):
            step = self.steps[number]
            group, rank = at.pop(number)
            if step.totals.dtype != object:
                rank = rank.astype(np.int64)
            if step.running is None:
                row, rank = step.starts[group] + rank, nothing
            else:
                first = step.starts[group]
                target = rank + np.where(first > 0, step.running[first - 1], 0)
                row = np.searchsorted(step.running, target, side="right")
                rank = target - np.where(row > 0, step.running[row - 1], 0)
            for name, values in step.values.items():
                codes[name] = values[row].astype(np.int64)
            for child, groups in step.children:
                below = groups[row].astype(np.int64)
                if self.steps[child].counts_one:
                    at[child] = below, nothing
                else:
                    totals = self.steps[child].totals[below]
                    at[child] = below, rank % totals
                    rank = rank // totals
        return {name: codes.get(name, nothing) for name in self.domains}

    def _checked(self, ranks: Sequence[int] | npt.NDArray[Any]) -> Counts:
        count = self.count
        array = ranks if isinstance(ranks, np.ndarray) else np.array([index(r) for r in ranks], dtype=object)
        if array.ndim != 1 or array.dtype.kind not in "iuO":
            raise ValueError(f"ranks must be one-dimensional integers, not {array.dtype} {array.shape}")
        if bool(np.any((array < 0) | (array >= count))):
            raise ValueError(
                f"a rank is out of range: use 0 to {count - 1}, since the space has {count} legal configurations"
            )
        return array.astype(np.int64) if count <= _SAFE else array.astype(object)
