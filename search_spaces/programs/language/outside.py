"""Padding of tiles: the values of elements that lie outside of the array, and how operations change these values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.index import ZERO, Index
from search_spaces.programs.language.ir import Source

Edge = tuple[Index, int, bool]
"""An end of an array along a dimension: (start of the tile, position of the end, True for the lower end).

The position of a lower end is the first position inside the array. The position of an upper end is the first position
outside.
"""


@dataclass(frozen=True)
class Outside:
    """The padding of a tile along one dimension: what is known about tile elements that lie outside of the array.

    Attributes:
        kind: ``inside`` if no element is outside, ``constant`` if all elements outside have one known value, else
            ``unknown``.
        value: The known value, for ``constant``.
        edges: The ends of arrays beyond which the tile may reach.
        source: Position of the operation that produced the padding, for messages.
    """

    kind: Literal["inside", "constant", "unknown"]
    value: float = 0.0
    edges: frozenset[Edge] = frozenset()
    source: Source | None = None


INSIDE = Outside("inside")


def misses(window: ir.Window, positions: Outside) -> bool:
    """Return True if padded indices select no element, because their constant value is outside of the array."""
    rows, columns = window.array.matrix
    extent = columns if len(window.indexed) == 2 else rows
    return positions.kind == "constant" and not 0 <= positions.value < extent


def implied(masked: frozenset[Edge], edges: frozenset[Edge]) -> frozenset[Edge]:
    """Return the ``edges`` beyond which a mask is known to be false, given that it is false beyond ``masked``.

    Args:
        masked: Edges beyond which the mask is known to be false.
        edges: Edges to select from.
    """

    def from_zero(edge: Edge) -> tuple[Index, int]:
        at, extent, _ = edge
        return (ZERO, extent - at.number) if at.kind == "constant" else (at, extent)

    def covers(mask: Edge, edge: Edge) -> bool:
        (one, masked), (other, end) = from_zero(mask), from_zero(edge)
        return one == other and mask[2] == edge[2] and (masked >= end if edge[2] else masked <= end)

    return frozenset(e for e in edges if any(covers(m, e) for m in masked))


def stretched(outside: Outside, factor: int) -> Outside:
    """Return the padding of a tile in which each element is repeated ``factor`` times."""
    edges = frozenset((at * factor, extent * factor, before) for at, extent, before in outside.edges)
    return replace(outside, edges=edges)


def grouped(outside: Outside, size: int) -> Outside | None:
    """Return the padding of a tile in which every ``size`` consecutive elements are combined into one.

    Return None if such a group of elements crosses the end of an array.
    """
    if any(at.divisor % size or extent % size for at, extent, _ in outside.edges):
        return None
    edges = frozenset((at // size, extent // size, before) for at, extent, before in outside.edges)
    return replace(outside, edges=edges)


def shifted(outside: Outside, by: Index) -> Outside:
    """Return the padding of a tile that begins ``by`` elements later."""
    return replace(outside, edges=frozenset((at + by, extent, before) for at, extent, before in outside.edges))


def either(one: Outside, other: Outside) -> Outside:
    """Return the padding of a shared-memory tile to which values with the paddings ``one`` and ``other`` are stored."""
    if one.kind == "inside" or other.kind == "inside":
        return other if one.kind == "inside" else one
    same = one.kind == other.kind == "constant" and one.value == other.value
    return replace(one, kind=one.kind if same else "unknown", edges=one.edges | other.edges)


def joined(before: Outside, after: Outside, first: float | None, second: float | None) -> Outside:
    """Return the padding of a state that two assignments may have set.

    ``first`` is the value of all elements of the first assigned tile, or None if elements differ; ``second`` likewise.
    """
    if before.kind == "inside" and after.kind == "inside":
        return INSIDE
    values = [
        number if o.kind == "inside" else (o.value if o.kind == "constant" else None)
        for o, number in ((before, first), (after, second))
    ]
    edges, source = before.edges | after.edges, before.source or after.source
    if values[0] is not None and values[0] == values[1]:
        return Outside("constant", values[0], edges, source)
    return Outside("unknown", 0.0, edges, source)


def known_number(function: str, values: list[float | None]) -> float | None:
    """Return a function's result, or None if it is unknown. None as an argument stands for an unknown finite number."""
    known = [v for v in values if v is not None]
    if len(known) == len(values):
        if function == "cast":
            return known[0]
        with np.errstate(all="ignore"):
            return float(np.asarray(FUNCTIONS[function].on_numpy(*(np.float64(v) for v in known))))
    if function == "multiply" and 0.0 in known:
        return 0.0
    if function == "and" and 0.0 in known:
        return 0.0
    if function == "divide" and values[0] == 0.0:
        return 0.0
    if function in ("add", "subtract") and known and math.isinf(known[0]):
        return known[0] if function == "add" or values[0] is not None else -known[0]
    if function == "where" and values[1] is not None and values[1] == values[2]:
        return values[1]
    if function == "where" and values[0] is not None:
        return values[1] if values[0] else values[2]
    return None
