"""Columns of what schedules need: ``estimates.needs`` of many schedules at once.

Most combinations of lanes, widths and subgroups fit no tile, and need nothing. Each condition is checked once for every
combination of the few parameters that it depends on, and needs are computed for the other rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.planning.choices import Choices
from search_spaces.programs.planning.estimates import NOTHING, Needs, anchor_fits, needs, products_fit
from search_spaces.programs.planning.numbers import warps_of
from search_spaces.programs.schedules.sizes import anchor_count
from search_spaces.spaces.columns import Column, TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Value


def each_needs(found: Choices, read: Callable[[Inference, Needs], int]) -> Callable[..., Any]:
    """Return a function of the columns that distributions depend on.

    Args:
        found: The program.
        read: Function that reads a number or a bool from the needs of one schedule.
    """
    nothing = read(found.first, NOTHING)

    def of_row(**values: Value) -> int:
        inference = found.inference(values)
        return read(inference, needs(inference, values))

    def over(**columns: Column) -> npt.NDArray[Any]:
        fits = _fits(found, columns)
        result = np.full(len(fits), nothing)
        rows = np.flatnonzero(fits)
        if len(rows):
            result[rows] = each(of_row)(**{name: _rows_of(column, rows) for name, column in columns.items()})
        return result

    return over


def _fits(found: Choices, columns: Mapping[str, Column]) -> BoolArray:
    """Return a mask of the rows for which ``estimates.fitting`` finds distributions."""

    def warps_of_block(**values: Value) -> int:
        return _warps_of_block(found.inference(values), tuple(values.items()))

    def fits(number: int, warps: int, **values: Value) -> bool:
        inference = found.inference(values)  # its sizes may let tiles share an anchor
        return warps > 0 and (number > len(inference.anchors) or anchor_fits(inference, number, warps, values))

    anchors = [(f"lanes_{number}", f"width_{number}") for number in range(1, anchor_count(found) + 1)]
    block = {name: column for name, column in columns.items() if not any(name in names for names in anchors)}
    warps = each(warps_of_block)(**block)
    mask: BoolArray = warps > 0
    for number, names in enumerate(anchors, 1):
        own = {name: columns[name] for name in (*found.domains, *names)}
        mask &= each(partial(fits, number))(**{**own, "warps": warps})
    return mask


@lru_cache(maxsize=2**14)
def _warps_of_block(found: Inference, items: tuple[tuple[str, Value], ...]) -> int:
    """Return the warps among which the products are divided; 0 if they do not fit."""
    values = dict(items)
    return warps_of(found, values) if products_fit(found, values) else 0


def _rows_of(column: Column, rows: IntArray) -> Column:
    return TextColumn(column.codes[rows], column.values) if isinstance(column, TextColumn) else column[rows]
