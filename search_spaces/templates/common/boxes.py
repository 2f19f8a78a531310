"""Boxes: the units that TMA copies between a matrix and a shared-memory tile, in the layouts of wgmma and tcgen05."""

from __future__ import annotations

import math

from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.wgmma import SWIZZLES, box_layout, line_bytes
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.operators.matmul import Matmul

SIDES: tuple[OperandSide, ...] = ("a", "b")
STRIDE_BYTES = 16  # required alignment of strides for TMA, in bytes (CUDA Driver API, cuTensorMapEncodeTiled)


def along_k(problem: Matmul, side: OperandSide) -> bool:
    """Return True if an operand's contiguous lines are parallel to k, and not to m or n."""
    return problem.order_a == "row" if side == "a" else problem.order_b == "col"


def line_extent(problem: Matmul, side: OperandSide) -> int:
    """Return the number of elements in one contiguous line of an operand."""
    return problem.depth if along_k(problem, side) else problem.m if side == "a" else problem.n


def aligned_bytes(problem: Matmul, side: OperandSide) -> int:
    """Return the alignment in bytes of all lines of an operand in memory: at most 16, as TMA needs no more."""
    operand = problem.operands()[SIDES.index(side)]
    return math.gcd(operand.shape[-1] * operand.dtype.bytes, STRIDE_BYTES)


def box_of(problem: Matmul, side: OperandSide, extent: int, tile_k: int, swizzle: int) -> SharedLayout | str:
    """Return the layout of one box of an operand's tile, or the reason why the tile cannot consist of boxes.

    Args:
        problem: Provides types and storage orders.
        side: "a" or "b".
        extent: Extent of the tile along m or n.
        tile_k: Extent of the tile along k.
        swizzle: Width of the swizzle in bytes.
    """
    by_k = along_k(problem, side)
    width = line_bytes(swizzle) // problem.input_dtype.bytes
    across, lines = (tile_k, extent) if by_k else (extent, tile_k)
    if across % width:
        axis = "k" if by_k else "m" if side == "a" else "n"
        return (
            f"boxes with a swizzle of {swizzle} bytes are {width} elements wide along {axis}, but this width does not "
            f"divide the {across} elements of the tile of {side}"
        )
    shape = (lines, width) if by_k == (side == "a") else (width, lines)
    swizzle_mode = next(s for s in SWIZZLES if s == swizzle)
    return box_layout(shape, by_k != (side == "a"), swizzle_mode, problem.input_dtype.bytes)


def why_too_narrow(problem: Matmul, side: OperandSide, extent: int, tile_k: int, swizzle: int) -> str | None:
    """Return the reason why a swizzle is not the widest that divides the lines, or None if it is the widest.

    With the widest swizzle, the fewest boxes suffice.
    """
    across = (tile_k if along_k(problem, side) else extent) * problem.input_dtype.bytes
    widest = max(s for s in SWIZZLES if across % line_bytes(s) == 0)
    if swizzle == widest:
        return None
    return (
        f"the swizzle of {side} spans {swizzle} bytes: use {widest} bytes, the widest swizzle that divides its lines "
        f"of {across} bytes"
    )


def why_not_stored(problem: Matmul) -> str | None:
    """Return None, or the reason why TMA cannot store the output ``out``."""
    row_bytes = problem.n * problem.out_dtype.bytes
    if row_bytes % STRIDE_BYTES == 0:
        return None
    return (
        f"TMA can only store rows of out that are a multiple of {STRIDE_BYTES} bytes long, but with n = {problem.n} a "
        f"row has {row_bytes} bytes"
    )


def store_line(tile_n: int, element_bytes: int) -> int:
    """Return the bytes per line of a box of ``out``: the widest swizzle that divides a row of a tile, or else 16."""
    return next(line for line in (128, 64, 32, 16) if tile_n * element_bytes % line == 0)
