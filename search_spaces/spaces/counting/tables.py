"""Relations as columns of codes, with joins and grouping for variable elimination.

The order of rows determines which configuration has which rank. The order must depend only on the input, so all sorts
are stable.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray

Codes = npt.NDArray[Any]  # codes as unsigned integers, in the narrowest type for the domain

_KEY_LIMIT = 2**62
_DENSE_KEYS = 1 << 22  # maximum number of keys for which a table of offsets is cheaper than a binary search per row


@dataclass(frozen=True, eq=False)
class Relation:
    """Allowed combinations of some variables, as distinct rows.

    ``columns`` are codes. ``steps`` maps an elimination step to an array with one entry per row, which is the row's
    group in that step. A group counts the configurations of the variables that were eliminated. The count of a row is
    the product of the counts of its groups.
    """

    columns: Mapping[str, Codes]
    length: int
    steps: Mapping[int, Codes] = field(default_factory=dict)

    def take(self, rows: npt.NDArray[Any]) -> Relation:
        """Return the rows with these indices."""
        return Relation(
            {name: codes[rows] for name, codes in self.columns.items()},
            len(rows),
            {step: groups[rows] for step, groups in self.steps.items()},
        )

    def select(self, names: Container[str]) -> Relation:
        """Return all rows with only the columns of these names. Rows of the result may be equal."""
        columns = {name: codes for name, codes in self.columns.items() if name in names}
        return Relation(columns, self.length, self.steps)


UNIT = Relation({}, 1)
NONE = Relation({}, 0)


def code_type(size: int) -> np.dtype[Any]:
    """Return the narrowest unsigned integer type for codes below ``size``."""
    return np.min_scalar_type(max(size - 1, 0))


def product(sizes: Mapping[str, int]) -> Relation:
    """Return every combination of codes, in an order in which the last variable varies fastest."""
    total = 1
    for size in sizes.values():
        total *= size
    columns: dict[str, Codes] = {}
    stride = total
    for name, size in sizes.items():
        stride //= size
        one_period = np.repeat(np.arange(size, dtype=code_type(size)), stride)
        columns[name] = np.tile(one_period, total // (size * stride))
    return Relation(columns, total)


def keys(tables: Sequence[Relation], sizes: Mapping[str, int]) -> tuple[list[IntArray], int]:
    """Return one int64 key per row, and an exclusive upper bound of the keys.

    The keys sort the rows of all ``tables`` lexicographically by the columns that ``sizes`` names.
    """
    codes = [np.zeros(t.length, dtype=np.int64) for t in tables]
    bound = 1
    for name, size in sizes.items():
        if bound * size >= _KEY_LIMIT:  # keep keys small: replace each key by its index among the keys that occur
            distinct, dense = np.unique(np.concatenate(codes), return_inverse=True)
            ends = np.cumsum([len(m) for m in codes])[:-1]
            codes, bound = np.split(dense.astype(np.int64), ends), max(len(distinct), 1)
        for key, table in zip(codes, tables, strict=True):
            key *= size
            key += table.columns[name]
        bound *= size
    return codes, bound


def sorted_order(key: IntArray, bound: int) -> IntArray | None:
    """Return the indices that sort ``key`` stably; None if ``key`` is already sorted."""
    rows = len(key)
    if rows < 2 or bool(np.all(key[1:] >= key[:-1])):
        return None
    if bound <= 1 << 16:  # numpy uses a fast radix sort for 16-bit integers
        return np.argsort(key.astype(code_type(bound)), kind="stable")
    # with the row number as last digit, keys are distinct, so that even the fastest sort is stable
    if bound * rows < 2**63:
        tagged = key * rows + np.arange(rows)
        tagged.sort()
        return tagged % rows
    return np.argsort(key, kind="stable")


def group_starts(sorted_key: IntArray) -> IntArray:
    """Return the index of the first row of each sequence of equal keys."""
    if not len(sorted_key):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(sorted_key[1:] != sorted_key[:-1]) + 1)).astype(np.int64)


class Join:
    """Natural join of two relations. ``counts`` has the number of joined rows for each left row; ``rows`` creates rows.

    Joined rows are in the order of the left rows. Joined rows of one left row are in the order of the right relation.
    """

    def __init__(self, left: Relation, right: Relation, sizes: Mapping[str, int]) -> None:
        shared = {name: sizes[name] for name in left.columns if name in right.columns}
        (left_key, right_key), bound = keys((left, right), shared)
        order = sorted_order(right_key, bound)
        self._left, self._right, self._order = left, right, order
        if bound <= max(_DENSE_KEYS, 4 * right.length):
            per_key = np.bincount(right_key, minlength=bound)
            ends = np.cumsum(per_key)
            self._first = (ends - per_key)[left_key]
            self.counts: IntArray = per_key[left_key]
        else:
            in_order = right_key if order is None else right_key[order]
            self._first = np.searchsorted(in_order, left_key, side="left")
            self.counts = np.searchsorted(in_order, left_key, side="right") - self._first

    def rows(self, start: int, stop: int) -> Relation:
        """Return the joined rows for the left rows from ``start`` to ``stop`` (exclusive)."""
        counts, first = self.counts[start:stop], self._first[start:stop]
        if len(counts) and int(counts.max()) <= 1:
            matching = np.flatnonzero(counts)
            left_rows, right_rows = matching + start, first[matching]
        else:
            total = int(counts.sum())
            left_rows = np.repeat(np.arange(start, stop), counts)
            before = np.cumsum(counts) - counts
            right_rows = np.arange(total) + np.repeat(first - before, counts)
        if self._order is not None:
            right_rows = self._order[right_rows]
        whole = len(left_rows) == self._left.length and int(self.counts.max(initial=0)) <= 1
        left = self._left if whole else self._left.take(left_rows)
        columns = dict(left.columns)
        for name, codes in self._right.columns.items():
            if name not in columns:
                columns[name] = codes[right_rows]
        steps = {**left.steps, **{step: groups[right_rows] for step, groups in self._right.steps.items()}}
        return Relation(columns, len(left_rows), steps)


def concatenate(tables: Sequence[Relation]) -> Relation:
    """Concatenate relations that have the same columns."""
    first = tables[0]
    if len(tables) == 1:
        return first
    return Relation(
        {name: np.concatenate([t.columns[name] for t in tables]) for name in first.columns},
        sum(t.length for t in tables),
        {step: np.concatenate([t.steps[step] for t in tables]) for step in first.steps},
    )
