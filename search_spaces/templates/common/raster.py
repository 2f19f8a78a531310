"""Orders in which blocks compute the tiles of a matrix (device code: autosched/common/raster.cuh)."""

from __future__ import annotations

import math

from search_spaces.hardware.dtypes import I32
from search_spaces.launches.launch import ScalarArgument
from search_spaces.spaces.parameters import Parameter, categorical
from search_spaces.spaces.rules import Rule

# rows of tiles in a band
RASTER_GROUPS = {"row": 1, "column": 1, **{f"grouped_{rows}": rows for rows in (2, 4, 8, 16)}}
HILBERT = "hilbert"
RASTER_ARGUMENT = "raster"  # name of the kernel argument that contains the order of tiles
STRAIGHT = 4  # sections of a Hilbert curve of at most this extent, in tiles, are traversed line by line


def raster(*, hilbert: bool = False, at_launch: bool = False) -> Parameter:
    """Return the parameter ``raster``: tiles by rows, by columns, or in bands of rows that are each ordered by columns.

    Args:
        hilbert: True if the order may also be a Hilbert curve (see ``hilbert_rounds`` for its cost).
        at_launch: True if the order is a kernel argument.
    """
    values = (*RASTER_GROUPS, *((HILBERT,) if hilbert else ()))
    return categorical("raster", values, "order of the tiles", at_launch=at_launch)


def raster_argument(value: str) -> ScalarArgument:
    """Return the kernel argument that contains the order of tiles (``LaunchRaster`` in autosched/common/raster.cuh).

    The argument is log2 of the rows of a band, or -1 for columns. Kernels with a Hilbert curve ignore the argument,
    because the curve has separate code.
    """
    return ScalarArgument(
        RASTER_ARGUMENT, I32, -1 if value == "column" else RASTER_GROUPS.get(value, 1).bit_length() - 1
    )


def hilbert_rounds(tiles_m: int, tiles_n: int) -> float:
    """Return the average number of rounds to find a tile on a Hilbert curve.

    Each round halves a section of the curve, until the section has about 45 tiles.
    """
    return max(0.0, math.log2(tiles_m * tiles_n) - 5.5) if min(tiles_m, tiles_n) > STRAIGHT else 0.0


def raster_rule(tile: tuple[str, str], extents: tuple[int, int]) -> Rule:
    """Return the pruning rule that excludes a raster if a simpler raster gives the same order of tiles.

    ``tile`` names the two parameters with the sizes of tiles; ``extents`` are the rows and columns of the matrix.
    """

    def why_not(rows: int, columns: int, raster: str) -> str | None:
        down, across = -(-extents[0] // rows), -(-extents[1] // columns)
        if raster == "row" or (raster == HILBERT and min(down, across) > STRAIGHT):
            return None
        if raster != HILBERT and across > 1 and RASTER_GROUPS[raster] < down:
            return None
        return f"raster {raster} orders {down} x {across} tiles like a simpler raster"

    return Rule.refusing("raster", why_not, names={"rows": tile[0], "columns": tile[1]})
