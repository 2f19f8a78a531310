"""Represent vectors of ranks other than two as tiles: leading dimensions become rows, in row-major order."""

from __future__ import annotations

import itertools
from math import prod

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.programs.language.ir import Shape

Dims = tuple[int | str, ...]


def matrix_shape(dims: Dims) -> Shape | None:
    """Return the shape of the tile that represents a vector; None if an extent is not a number."""
    numbers = [d for d in dims if isinstance(d, int)]
    if not numbers or len(numbers) != len(dims):
        return None
    return prod(numbers[:-1]), numbers[-1]


def matrix_layout(layout: NestedLayout) -> NestedLayout:
    """Return the layout of the tile that represents a vector with ``layout``.

    Raises:
        ValueError: If no layout of the tile is equivalent, because the leading dimensions cannot be joined to one
            dimension of rows.
    """
    columns = _dimensions(layout)
    while len(columns) > 2:
        columns[:2] = [_joined(columns[0], columns[1])]
    if len(columns) == 1:
        columns.insert(0, ((1, 1, 1, 1, 1), (0, 0)))
    tiles = list(zip(*(tiles for tiles, _ in columns), strict=True))
    strides = list(zip(*(strides for _, strides in columns), strict=True))
    return NestedLayout(*tiles, *strides)


_Dimension = tuple[tuple[int, ...], tuple[int, int]]
"""One dimension of a NestedLayout: tile sizes of the five levels, and the strides of subgroups and threads."""


def _dimensions(layout: NestedLayout) -> list[_Dimension]:
    strides = zip(layout.subgroup_strides, layout.thread_strides, strict=True)
    return [(tiles, of) for tiles, of in zip(zip(*layout.tiles, strict=True), strides, strict=True)]


def _joined(slow: _Dimension, fast: _Dimension) -> _Dimension:
    """Join two dimensions to one, in row-major order.

    Raises ValueError if ``slow`` is divided at a lower level than ``fast``, or if strides do not match.
    """
    used = [[level for level, size in enumerate(tiles) if size > 1] for tiles, _ in (slow, fast)]
    if used[0] and used[1] and max(used[0]) > min(used[1]):
        raise ValueError(
            f"dimensions with tiles {list(slow[0])} and {list(fast[0])} cannot be joined to one dimension of rows: the "
            "first is divided at a lower level than the second"
        )
    strides = []
    for position, level in enumerate((0, 3)):  # the levels with strides: subgroups and threads
        if slow[0][level] > 1 and fast[0][level] > 1 and slow[1][position] != fast[1][position] * fast[0][level]:
            raise ValueError(
                f"dimensions with strides {slow[1][position]} and {fast[1][position]} cannot be joined to one "
                f"dimension of rows: the first stride must be {fast[1][position] * fast[0][level]}"
            )
        strides.append(fast[1][position] if fast[0][level] > 1 else slow[1][position])
    tiles = tuple(a * b for a, b in itertools.zip_longest(slow[0], fast[0], fillvalue=1))
    return tiles, (strides[0], strides[1])
