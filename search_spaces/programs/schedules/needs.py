"""Compute ``estimates.needs`` for many schedules at once, as columns of numbers.

A row is a combination of parameter values. The lanes, widths or subgroups of most rows do not fit the tiles; the needs
of such rows are zero. To find such rows, each condition is evaluated once per combination of the few parameters that it
depends on. Needs are computed only for the remaining rows. The last result is cached, because several attributes read
the needs of the same rows one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.planning.choices import Choices
from search_spaces.programs.planning.distributions import warps_of
from search_spaces.programs.planning.estimates import NOTHING, Needs, anchor_fits, needs, products_fit
from search_spaces.programs.schedules.sizes import anchor_count
from search_spaces.spaces.columns import Column, TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Value


def each_needs(choices: Choices, read: Callable[[Inference, Needs], int]) -> Callable[..., Any]:
    """Return a function that computes a number for each row, by calling ``read``.

    The arguments of the function are the columns that distributions depend on.

    Args:
        choices: Choices of the program.
        read: Function that returns a number or bool from the inference and the needs of a row.
    """

    def over(**columns: Column) -> npt.NDArray[Any]:
        rows = _needs_of_rows(choices, columns)
        return np.array([read(*distinct) for distinct in rows.distinct])[rows.numbers]

    return over


class _NeedsOfRows(NamedTuple):
    """Needs and inference of all rows. ``numbers`` has, for each row, the index of its needs in ``distinct``."""

    choices: Choices
    columns: Mapping[str, Column]
    distinct: list[tuple[Inference, Needs]]
    numbers: IntArray


_last: _NeedsOfRows | None = None  # one cache for all programs, as a cache per program would need too much memory


def _needs_of_rows(choices: Choices, columns: Mapping[str, Column]) -> _NeedsOfRows:
    """Return the needs of all rows. The result is cached for the next call."""
    global _last
    last = _last  # copy the reference, as another thread may replace ``_last``
    if last is None or last.choices is not choices or not _equal(last.columns, columns):
        last = _last = _compute(choices, columns)
    return last


def _equal(a: Mapping[str, Column], b: Mapping[str, Column]) -> bool:
    return a.keys() == b.keys() and all(_equal_columns(column, b[name]) for name, column in a.items())


def _equal_columns(one: Column, other: Column) -> bool:
    if isinstance(one, TextColumn) and isinstance(other, TextColumn):
        return one.values == other.values and np.array_equal(one.codes, other.codes)
    return not isinstance(one, TextColumn) and not isinstance(other, TextColumn) and np.array_equal(one, other)


def _compute(choices: Choices, columns: Mapping[str, Column]) -> _NeedsOfRows:
    distinct = [(choices.first, NOTHING)]

    def number(**values: Value) -> int:
        inference = choices.inference(values)
        distinct.append((inference, needs(inference, values)))
        return len(distinct) - 1

    fits = _fits(choices, columns)
    numbers = np.zeros(len(fits), dtype=np.int64)
    rows = np.flatnonzero(fits)
    if len(rows):
        numbers[rows] = each(number)(**{name: _rows_of(column, rows) for name, column in columns.items()})
    return _NeedsOfRows(choices, columns, distinct, numbers)


def _fits(choices: Choices, columns: Mapping[str, Column]) -> BoolArray:
    """Return a mask of the rows for which ``estimates.fitting`` returns distributions."""

    def warps_of_block(**values: Value) -> int:
        inference = choices.inference(values)
        return warps_of(inference, values) if products_fit(inference, values) else 0

    def fits(number: int, warps: int, **values: Value) -> bool:
        # With these sizes, tiles may have equal shapes and share an anchor, so anchor ``number`` need not exist.
        inference = choices.inference(values)
        return warps > 0 and (number > len(inference.anchors) or anchor_fits(inference, number, warps, values))

    anchors = [(f"lanes_{number}", f"width_{number}") for number in range(1, anchor_count(choices) + 1)]
    block = {name: column for name, column in columns.items() if not any(name in names for names in anchors)}
    warps = each(warps_of_block)(**block)
    mask: BoolArray = warps > 0
    for number, names in enumerate(anchors, 1):
        own = {name: columns[name] for name in (*choices.shaping, *names)}
        mask &= each(partial(fits, number))(**{**own, "warps": warps})
    return mask


def _rows_of(column: Column, rows: IntArray) -> Column:
    return TextColumn(column.codes[rows], column.values) if isinstance(column, TextColumn) else column[rows]
