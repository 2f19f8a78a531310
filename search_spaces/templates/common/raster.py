"""The order in which blocks take the tiles of a matrix: what kernels offer, see autosched/common/raster.cuh."""

from __future__ import annotations

import math

from search_spaces.hardware.dtypes import I32
from search_spaces.launches.launch import ScalarArgument
from search_spaces.spaces.parameters import Parameter, categorical
from search_spaces.spaces.rules import Rule

RASTER_GROUPS = {"row": 1, "column": 1, **{f"grouped_{rows}": rows for rows in (2, 4, 8, 16)}}  # rows in a band
HILBERT = "hilbert"
RASTER_ARGUMENT = "raster"  # of kernels whose launches choose the order
STRAIGHT = 4  # tiles across, up to which a Hilbert curve is walked line by line


def raster(*, hilbert: bool = False) -> Parameter:
    """Return the decision ``raster``: by rows, by columns, by bands of so many rows, each by columns, or, where asked
    for, along a Hilbert curve, whose tiles take ``hilbert_rounds`` to find.
    """
    return categorical("raster", (*RASTER_GROUPS, *((HILBERT,) if hilbert else ())), "order of the tiles")


def raster_argument(value: str) -> ScalarArgument:
    """Return the argument that carries the order in a launch (``LaunchRaster`` in autosched/common/raster.cuh).

    It is the binary logarithm of the rows of a band, or -1 for columns; a Hilbert curve is code and ignores it.
    """
    return ScalarArgument(
        RASTER_ARGUMENT, I32, -1 if value == "column" else RASTER_GROUPS.get(value, 1).bit_length() - 1
    )


def hilbert_rounds(tiles_m: int, tiles_n: int) -> float:
    """Return rounds in which a tile of a Hilbert curve is found, on average; each halves a piece, down to some 45
    tiles.
    """
    return max(0.0, math.log2(tiles_m * tiles_n) - 5.5) if min(tiles_m, tiles_n) > STRAIGHT else 0.0


def raster_rule(tile: tuple[str, str], extents: tuple[int, int]) -> Rule:
    """Return a pruning rule: no raster that orders the tiles of a matrix as a simpler one does. ``tile`` names the
    parameters that cut its ``extents``, rows and columns.
    """

    def why_not(rows: int, columns: int, raster: str) -> str | None:
        down, across = -(-extents[0] // rows), -(-extents[1] // columns)
        if raster == "row" or (raster == HILBERT and min(down, across) > STRAIGHT):
            return None
        if raster != HILBERT and across > 1 and RASTER_GROUPS[raster] < down:
            return None
        return f"raster {raster} orders {down} x {across} tiles as a simpler raster does"

    return Rule.refusing("raster", why_not, names={"rows": tile[0], "columns": tile[1]})
