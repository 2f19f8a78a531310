"""The order in which blocks take the tiles of a matrix: what kernels offer, see autosched/common/raster.cuh."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from search_spaces.spaces.parameters import Parameter, Value, categorical
from search_spaces.spaces.rules import Rule, integer

RASTER_GROUPS = {"row": 1, "column": 1, **{f"grouped_{rows}": rows for rows in (2, 4, 8, 16)}}  # rows in a band


def raster() -> Parameter:
    """The decision ``raster``: by rows, by columns, or by bands of so many rows, each by columns."""
    return categorical("raster", tuple(RASTER_GROUPS), "order of the tiles")


def raster_rule(tile: tuple[str, str], extents: tuple[int, int]) -> Rule:
    """A pruning rule: no raster that orders the tiles of a matrix as a simpler one does. ``tile`` names the parameters
    that cut its ``extents``, rows and columns."""

    def tiles(rows: int, columns: int) -> tuple[int, int]:
        return -(-extents[0] // rows), -(-extents[1] // columns)

    def useful(rows: int, columns: int, name: str) -> bool:
        down, across = tiles(rows, columns)
        if down == 1 or across == 1:
            return name == "row"
        return name in ("row", "column") or RASTER_GROUPS[name] < down

    def reason(v: Mapping[str, Value]) -> str:
        down, across = tiles(integer(v, tile[0]), integer(v, tile[1]))
        return f"raster {v['raster']} orders {down} x {across} tiles as a simpler raster does"

    return Rule(
        "raster",
        (*tile, "raster"),
        lambda c: c.map((*tile, "raster"), useful, np.bool_),
        reason,
    )
