"""The order in which blocks take the tiles of a matrix: what kernels offer, see autosched/common/raster.cuh."""

from __future__ import annotations

from search_spaces.spaces.parameters import Parameter, categorical
from search_spaces.spaces.rules import Rule

RASTER_GROUPS = {"row": 1, "column": 1, **{f"grouped_{rows}": rows for rows in (2, 4, 8, 16)}}  # rows in a band


def raster() -> Parameter:
    """The decision ``raster``: by rows, by columns, or by bands of so many rows, each by columns."""
    return categorical("raster", tuple(RASTER_GROUPS), "order of the tiles")


def raster_rule(tile: tuple[str, str], extents: tuple[int, int]) -> Rule:
    """A pruning rule: no raster that orders the tiles of a matrix as a simpler one does. ``tile`` names the parameters
    that cut its ``extents``, rows and columns."""

    def why_not(rows: int, columns: int, raster: str) -> str | None:
        down, across = -(-extents[0] // rows), -(-extents[1] // columns)
        if raster == "row" or (across > 1 and RASTER_GROUPS[raster] < down):
            return None
        return f"raster {raster} orders {down} x {across} tiles as a simpler raster does"

    return Rule.refusing("raster", why_not, names={"rows": tile[0], "columns": tile[1]})
