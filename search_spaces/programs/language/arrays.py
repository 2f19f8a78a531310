"""Arrays of a tile program, windows on arrays, tiles (values), and exceptions for errors in the program."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from search_spaces.hardware.dtypes import DType
from search_spaces.layouts.memory_order import MemoryOrder
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language.index import Index

Shape = tuple[int, int]
UserMap = WgMap | NestedLayout


class ProgramError(ValueError):
    """Raised if a program breaks a rule of the language. The message names the line, the operation and the rule."""


class MisusedArray(ProgramError):
    """Raised if a program indexes an array in an unsupported way. The caller adds the line to the message."""


@dataclass(frozen=True)
class Source:
    """Position of an operation in the user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Array:
    """A row-major array argument of the program, or a tile in shared memory.

    Attributes:
        sizes: Names of the extents.
        lead: Indices of the leading dimensions, for an array that was indexed, such as ``q[sequence][head]``.
        order: Memory order of a packed matrix; None for row-major.

    A vector is a matrix of one row.
    """

    name: str
    role: Literal["input", "output", "inout", "shared"]
    dtype: DType
    sizes: tuple[str, ...]
    full: tuple[int, ...]
    lead: tuple[Index, ...] = ()
    dynamic: Index | None = None  # the first extent if it is dynamic (each launch passes it)
    line: Index | None = None  # the last extent of a matrix if it is dynamic
    pitch: Index | None = None  # elements from one line to the next, if this number is dynamic
    order: MemoryOrder | None = None

    @property
    def matrix(self) -> Shape:
        """Extents (rows, columns) of the last two dimensions; a vector is one row."""
        return (1, self.full[0]) if len(self.full) == 1 else (self.full[-2], self.full[-1])

    @property
    def stored(self) -> Shape:
        """(lines, elements per line) of a matrix in memory, where each line is contiguous."""
        return self.matrix if self.order is None else self.order.shape(*self.matrix)

    @property
    def shape(self) -> tuple[Index | int, ...]:
        """Extents of the dimensions that are not indexed yet; a dynamic extent is an ``Index``."""
        full: tuple[Index | int, ...] = self.full
        if self.dynamic is not None:
            full = (self.dynamic, *full[1:])
        if self.line is not None:
            full = (*full[:-1], self.line)
        return full[len(self.lead) :]

    @property
    def line_divisor(self) -> int:
        """Common divisor of the length of a line and the distance between lines, in elements; valid in every launch."""
        if self.pitch is not None:
            return math.gcd(self.matrix[1] if self.line is None else self.line.divisor, self.pitch.divisor)
        return self.matrix[1] if self.dynamic is None or len(self.full) > 1 else self.dynamic.divisor

    @property
    def pitch_code(self) -> str:
        """Elements from one line to the next, as CUDA C++."""
        return str(self.matrix[1]) if self.pitch is None else self.pitch.code

    def __getitem__(self, position: Index | int) -> Array:
        """Return the slice at ``position`` of the first dimension. Raises MisusedArray if only a matrix remains."""
        if len(self.shape) < 3:
            raise MisusedArray(f"{self.name}[..]: only dimensions before the last two can be indexed: use p.window")
        if not isinstance(position, Index | int) or isinstance(position, bool):
            raise MisusedArray(
                f"{self.name}[..]: invalid index, a {type(position).__name__.lower()}: use a whole number or an index "
                "from p.load_scalar, or pass a tile of row numbers to p.window"
            )
        index = position if isinstance(position, Index) else Index("constant", position)
        return replace(self, lead=(*self.lead, index))


@dataclass(frozen=True)
class Window:
    """A rectangular window on an array, of the shape of a tile (RFC, init_tile). ``Move`` shifts it.

    Attributes:
        turned: True if the window shows the transposed matrix.
        index: i32 values that select elements (RFC, #scatter). For a vector, each value is the position of one element.
            For a matrix, each value is the number of a row of the array: the window has one line per value, which shows
            this row from position ``at`` on. Positions outside of the array are skipped.
        flat: True if ``index`` has one value per element of a matrix, and this value is the element's row-major
            position.
    """

    id: int
    array: Array
    at: tuple[Index, Index]
    shape: Shape
    turned: bool = False
    map: WgMap | None = None
    index: Value | None = None
    flat: bool = False

    @property
    def extent(self) -> Shape:
        """Rows and columns of the array in the orientation of the window."""
        rows, columns = self.array.matrix
        return (columns, rows) if self.turned else (rows, columns)

    def dynamic(self, dimension: int) -> Index | None:
        """Return the array's extent along a dimension if it is dynamic, else None."""
        vector = len(self.array.full) == 1
        sizes = (None, self.array.dynamic) if vector else (self.array.dynamic, self.array.line)
        return sizes[1 - dimension if self.turned else dimension]

    @property
    def least(self) -> Shape:
        """Smallest extents that the array may have in any launch, in the orientation of the window."""
        rows, columns = (extent if self.dynamic(d) is None else 1 for d, extent in enumerate(self.extent))
        return rows, columns

    def extent_code(self, dimension: int) -> str:
        """Return the array's extent along a dimension as CUDA C++."""
        size = self.dynamic(dimension)
        return str(self.extent[dimension]) if size is None else size.code

    @property
    def sizes(self) -> tuple[str, str]:
        """Names of the array's extents along the window's rows and columns; "" for an extent without a name."""
        rows, columns = ("", "", *self.array.sizes)[-2:]
        return (columns, rows) if self.turned else (rows, columns)

    @property
    def strides(self) -> tuple[str, str]:
        """Elements in memory from one row of the window to the next, and from one column to the next, as CUDA C++."""
        line = self.array.pitch_code
        return ("1", line) if self.turned else (line, "1")

    @property
    def indexed(self) -> tuple[int, ...]:
        """Dimensions along which ``index`` selects: one if its values select lines, both if they select elements."""
        if self.index is None:
            return ()
        return (0, 1) if self.flat or len(self.array.full) == 1 else (1 - line_dimension(self),)


@dataclass(frozen=True)
class Value:
    """The result of an operation. ``map`` is its distribution over threads, if the user chose one."""

    id: int
    shape: Shape
    dtype: DType
    map: UserMap | None = None


def line_dimension(window: Window) -> int:
    """Return the dimension of the window that runs along contiguous memory."""
    return 0 if window.turned else 1
