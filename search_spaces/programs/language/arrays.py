"""Arrays of a tile program, windows on them, and values of tile shape; errors that name a line of the program."""

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
Given = WgMap | NestedLayout


class ProgramError(ValueError):
    """A program that breaks a rule of the language: one line that names the place, the operation and the rule."""


class MisusedArray(ProgramError):
    """An array that is indexed in a way that the language has not; its line is that of the caller."""


@dataclass(frozen=True)
class Source:
    """Where an operation stands in the user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Array:
    """An argument of the program, row-major; ``sizes`` are the names of its extents. Or a tile in shared memory.

    A vector is one row. ``lead`` are the places along the dimensions before the last two, of an array of three
    dimensions that was indexed; ``leading`` are their extents. A matrix may lie in memory in another ``order``.
    """

    name: str
    role: Literal["input", "output", "inout", "shared"]
    dtype: DType
    sizes: tuple[str, ...]
    full: tuple[int, ...]
    lead: tuple[Index, ...] = ()
    dynamic: Index | None = None  # the first extent, where a launch says it
    pitch: Index | None = None  # elements from one line to the next, where a launch says it
    order: MemoryOrder | None = None

    @property
    def matrix(self) -> Shape:
        return (1, self.full[0]) if len(self.full) == 1 else (self.full[-2], self.full[-1])

    @property
    def stored(self) -> Shape:
        """Lines of memory, and the elements of a line."""
        return self.matrix if self.order is None else self.order.shape(*self.matrix)

    @property
    def shape(self) -> tuple[Index | int, ...]:
        """The dimensions that have no index yet; a dynamic size is an index."""
        full: tuple[Index | int, ...] = self.full
        if self.dynamic is not None:
            full = (self.dynamic, *self.full[1:])
        return full[len(self.lead) :]

    @property
    def places_of_line(self) -> int:
        """What divides the elements of a line in every launch, and those from one line to the next."""
        if self.pitch is not None:
            return math.gcd(self.matrix[1], self.pitch.divisor)
        return self.matrix[1] if self.dynamic is None or len(self.full) > 1 else self.dynamic.divisor

    @property
    def pitch_code(self) -> str:
        """Elements from one line to the next, in CUDA C++."""
        return str(self.matrix[1]) if self.pitch is None else self.pitch.code

    def __getitem__(self, place: Index | int) -> Array:
        """Return the array at a place of its first dimension. Raises MisusedArray where only a matrix is left."""
        if len(self.shape) < 3:
            raise MisusedArray(f"{self.name}[..]: only dimensions before the last two are indexed; use p.window")
        if not isinstance(place, Index | int) or isinstance(place, bool):
            raise MisusedArray(
                f"{self.name}[..]: a dimension is indexed by a place or a whole number, not by a "
                f"{type(place).__name__.lower()}: load it with p.load_scalar, or give p.window a tile of row numbers"
            )
        index = place if isinstance(place, Index) else Index("constant", place)
        return replace(self, lead=(*self.lead, index))


@dataclass(frozen=True)
class Window:
    """A tile of an array, which ``Move`` shifts (init_tile). ``turned``: it sees the transposed matrix.

    ``index``: its elements lie where these i32 say (#scatter). Of a matrix, a place for each of its lines, which begin
    at ``at`` along the line; of a vector, a place for each element. What lies outside of the array is skipped.
    ``flat``: of a matrix as one line, a place for each element.
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
        """The array's, as the window sees it."""
        rows, columns = self.array.matrix
        return (columns, rows) if self.turned else (rows, columns)

    def dynamic(self, dimension: int) -> Index | None:
        """Return the array's extent along a dimension, where a launch says it."""
        size = self.array.dynamic
        along = 1 if len(self.array.full) == 1 else 0
        return size if size is not None and (1 - along if self.turned else along) == dimension else None

    @property
    def least(self) -> Shape:
        """The least extent of the array in any launch, as the window sees it."""
        rows, columns = (extent if self.dynamic(d) is None else 1 for d, extent in enumerate(self.extent))
        return rows, columns

    def extent_code(self, dimension: int) -> str:
        """Return the array's extent along a dimension in CUDA C++."""
        size = self.dynamic(dimension)
        return str(self.extent[dimension]) if size is None else size.code

    @property
    def sizes(self) -> tuple[str, str]:
        """The names of the array's sizes along its rows and columns, as the window sees them; "" where it has none."""
        rows, columns = ("", "", *self.array.sizes)[-2:]
        return (columns, rows) if self.turned else (rows, columns)

    @property
    def strides(self) -> tuple[str, str]:
        """Elements in memory from a row of the window to the next, and from a column to the next, in CUDA C++."""
        line = self.array.pitch_code
        return ("1", line) if self.turned else (line, "1")

    @property
    def indexed(self) -> tuple[int, ...]:
        """The dimensions along which ``index`` says where elements lie: none, that across lines, or both."""
        if self.index is None:
            return ()
        return (0, 1) if self.flat or len(self.array.full) == 1 else (1 - line_dimension(self),)


@dataclass(frozen=True)
class Value:
    """The result of an operation. ``map``: what the user says about who holds what."""

    id: int
    shape: Shape
    dtype: DType
    map: Given | None = None


def line_dimension(window: Window) -> int:
    """Return the dimension of the window that lies along contiguous memory."""
    return 0 if window.turned else 1
