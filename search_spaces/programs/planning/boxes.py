"""Boxes: swizzled tiles in shared memory that wgmma and tcgen05 read, their sizes, and the copies that fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from search_spaces.hardware.wgmma import CORE_LINES, SWIZZLES, TRANSPOSED_BYTES, Swizzle
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import MOST_BOX, TensorMap
from search_spaces.layouts.shared_layout import hardware_swizzle
from search_spaces.programs.inference.inference import Staged
from search_spaces.programs.language.index import FIRST_OUTSIDE
from search_spaces.programs.planning.distributions import Distributions
from search_spaces.programs.planning.instructions import BOX_ALIGNMENT, MOST_COLUMNS, rows_of
from search_spaces.spaces.parameters import Value

BY_THREADS, TMA, WARP = "threads", "tma", "warp"  # what fills boxes: all threads, TMA, or TMA issued by a producer warp
TMA_BYTES, LEAST_BYTES = 16, 4  # required alignment of array rows in bytes, for TMA and for cp.async


@dataclass(frozen=True)
class BoxedNumbers:
    """An operand that is stored in boxes.

    Attributes:
        access: Alignment in bytes of a tile's rows in memory.
        bytes: Size of a tile in bytes.
    """

    staged: Staged
    swizzle: Swizzle
    tma: bool
    access: int
    bytes: int

    @property
    def line(self) -> int:
        """Number of elements of a box along contiguous memory."""
        return self.swizzle // self.element_bytes

    @property
    def lines(self) -> int:
        """Number of contiguous lines of a box."""
        rows, columns = self.staged.shape
        return rows if self.staged.row_major else columns

    @property
    def boxes(self) -> int:
        """Number of boxes of a tile, which lie side by side. TMA copies a box with too many lines in two halves."""
        rows, columns = self.staged.shape
        return (columns if self.staged.row_major else rows) // self.line

    @property
    def element_bytes(self) -> int:
        """Size of an element in bytes."""
        return self.staged.load.window.array.dtype.bytes


def swizzle_of(layout: str, row_major: bool, element_bytes: int) -> Swizzle | None:
    """Return the hardware swizzle, in bytes, of a layout; None if the layout is not a hardware swizzle."""
    wanted = {
        ("" if row_major else "transpose+") + hardware_swizzle(s, element_bytes).text: s for s in SWIZZLES if s != 0
    }
    return wanted.get(layout)


def why_no_boxes(staged: Staged, layout: str, rows: int, cols: int) -> str | None:
    """Return why a tile with this layout cannot be stored in boxes; None if it can.

    Args:
        staged: The operand.
        layout: Text of the layout.
        rows: Number of rows of the tile.
        cols: Number of columns of the tile.
    """
    element_bytes = staged.load.window.array.dtype.bytes
    swizzle = swizzle_of(layout, staged.row_major, element_bytes)
    if swizzle is None:
        return f"boxes of {staged.name} need a hardware swizzle along memory lines, not {layout}"
    if element_bytes != TRANSPOSED_BYTES and staged.row_major != (staged.side == "a"):
        return (
            f"operands with elements of {element_bytes} bytes must be contiguous along k, but {staged.name} is "
            f"contiguous along {'m' if staged.side == 'a' else 'n'}"
        )
    across, lines = (cols, rows) if staged.row_major else (rows, cols)
    width = swizzle // element_bytes
    if across % width:
        return f"boxes of {width} elements do not divide the {across} elements of a line of {staged.name}'s tile"
    if lines % CORE_LINES:
        return f"boxes are read {CORE_LINES} lines at a time, but the tile of {staged.name} has {lines} lines"
    if rows * cols * element_bytes % BOX_ALIGNMENT:
        return f"a tile of {staged.name} has {rows * cols * element_bytes} bytes, not a multiple of {BOX_ALIGNMENT}"
    if lines > 2 * MOST_BOX or (staged.side == "b" and cols > MOST_COLUMNS):
        return f"the tile of {staged.name} is too large for the instructions that copy and read boxes"
    return None


def line_bytes(staged: Staged) -> int:
    """Return the alignment in bytes, at most 16, at which tiles begin in global memory."""
    return gcd(staged.alignment * staged.load.window.array.dtype.bytes, TMA_BYTES)


def pitch_bytes(staged: Staged) -> int:
    """Return the alignment in bytes, at most 16, of the array's rows in global memory."""
    array = staged.load.window.array
    return gcd(array.line_divisor * array.dtype.bytes, TMA_BYTES)


def can_use_tma(staged: Staged) -> bool:
    """Return True if TMA can copy a tile: the array's rows are aligned, and the tile has consecutive rows."""
    return pitch_bytes(staged) == TMA_BYTES and staged.advance != "gathered"


def needs_tma(staged: Staged) -> bool:
    """Return True if only TMA can fill the boxes: copies by threads do not support dynamic strides."""
    return staged.load.window.array.pitch is not None


def boxed_numbers(staged: Staged, values: Mapping[str, Value]) -> BoxedNumbers:
    """Return the plan of an operand that is stored in boxes. Raises ValueError if the schedule is invalid."""
    layout = str(values[f"layout_{staged.name}"])
    reason = why_no_boxes(staged, layout, *staged.shape)
    if reason is not None:
        raise ValueError(reason)
    element_bytes = staged.load.window.array.dtype.bytes
    swizzle = swizzle_of(layout, staged.row_major, element_bytes)
    assert swizzle is not None
    rows, columns = staged.shape
    tma = values["filled_by"] != BY_THREADS and can_use_tma(staged)
    return BoxedNumbers(staged, swizzle, tma, line_bytes(staged), rows * columns * element_bytes)


def has_copying_warp(values: Mapping[str, Value]) -> bool:
    """Return True if a producer warp issues the copies."""
    return values.get("filled_by") == WARP


def box_struct(n: BoxedNumbers, distributions: Distributions) -> str:
    """Return the definition of the C++ type ``Operand_NAME`` of an operand that is stored in boxes."""
    staged = n.staged
    product, array = distributions.products[staged.product], staged.load.window.array
    left = staged.side == "a"
    groups = distributions.warps // 4
    values = {
        "bool left": left,
        "bool row_major": staged.row_major,
        "int extent": staged.shape[0 if left else 1],
        "int depth": staged.shape[1 if left else 0],
        "int swizzle": n.swizzle,
        "int array_major": array.matrix[0] if array.dynamic is None else FIRST_OUTSIDE,
        "int array_minor": array.matrix[1] if array.line is None else FIRST_OUTSIDE,
        "int threads": distributions.warps * 32,
        "bool tma": n.tma,
        "bool anywhere": staged.anywhere,
        "int access": n.access,
        "int stage_bytes": n.bytes,
        "int advance": {"major": 1, "minor": 2}.get(staged.advance, 0),
        "int groups": groups,
        "int fragments": product.shape[0] // (rows_of(product.intrinsic) * groups),
    }
    lines = [f"using T = {array.dtype.c_name};"]
    lines += [f"static constexpr {name} = {str(value).lower()};" for name, value in values.items()]
    members = "".join(f"  {line}\n" for line in lines)
    return (
        f"struct Load_{staged.name} {{\n{members}}};\n"
        f"using Operand_{staged.name} = tile::BoxOperand<Load_{staged.name}>;\n\n"
    )


def box_map(n: BoxedNumbers, operand: Operand) -> TensorMap:
    """Return the tensor map of an operand. A copy transfers a box, or half of a box that has too many lines."""
    lines = n.lines if n.lines <= MOST_BOX else n.lines // 2
    name = {32: "32B", 64: "64B", 128: "128B"}[n.swizzle]
    return TensorMap.matrices(f"{n.staged.name}_map", operand, (lines, n.line), swizzle=name)  # type: ignore[arg-type]
