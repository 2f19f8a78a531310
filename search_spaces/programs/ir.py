"""What a tile program is: windows on arrays, values of tile shape, and the operations between them.

A trace is the program at the sizes of one problem and one choice of tile sizes, so that every shape is a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from search_spaces.hardware.dtypes import DType


class ProgramError(ValueError):
    """A program that breaks a rule of the language: one line that names the place, the operation and the rule."""


@dataclass(frozen=True)
class Source:
    """Where an operation stands in the user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Index:
    """``constant`` elements, and ``step`` for each block along ``axis`` of the blocks."""

    axis: int = 0
    step: int = 0
    constant: int = 0

    def at(self, block: tuple[int, int]) -> int:
        return self.constant + self.step * block[self.axis]


@dataclass(frozen=True)
class Array:
    """An argument of the program, row-major; ``sizes`` are the names of its extents."""

    name: str
    role: Literal["input", "output"]
    dtype: DType
    sizes: tuple[str, ...]
    shape: tuple[int, int]  # a vector is one row


@dataclass(frozen=True)
class Window:
    """A tile of an array, which ``Move`` shifts. ``column``: a vector that is read as one column."""

    id: int
    array: Array
    at: tuple[Index, Index]
    shape: tuple[int, int]
    column: bool = False

    @property
    def extent(self) -> tuple[int, int]:
        """The array's, as the window sees it."""
        rows, columns = self.array.shape
        return (columns, rows) if self.column else (rows, columns)


@dataclass(frozen=True)
class Value:
    """The result of an operation."""

    id: int
    shape: tuple[int, int]
    dtype: DType


@dataclass(frozen=True)
class Load:
    result: Value
    window: Window
    source: Source


@dataclass(frozen=True)
class Store:
    value: Value
    window: Window
    source: Source


@dataclass(frozen=True)
class Move:
    window: Window
    by: tuple[int, int]
    source: Source


@dataclass(frozen=True)
class Transpose:
    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class Mma:
    """``result = a @ b + c``; without ``c``, a @ b."""

    result: Value
    a: Value
    b: Value
    c: Value | None
    source: Source


@dataclass(frozen=True)
class Fill:
    result: Value
    number: float
    source: Source


@dataclass(frozen=True)
class Map:
    """An element-wise function of values and numbers (``functions.py``); a cast is the function ``cast``."""

    result: Value
    function: str
    arguments: tuple[Value | float, ...]
    source: Source


@dataclass(frozen=True)
class Broadcast:
    result: Value
    value: Value
    dimension: int
    source: Source


@dataclass(frozen=True)
class Read:
    """The present value of a state, a variable that a loop carries."""

    result: Value
    state: int
    source: Source


@dataclass(frozen=True)
class Set:
    state: int
    value: Value
    source: Source


@dataclass(frozen=True)
class Loop:
    """``extent`` in steps of ``step``, the last one partial where it does not divide."""

    extent: int
    step: int
    body: tuple[Operation, ...]
    source: Source

    @property
    def steps(self) -> int:
        return -(-self.extent // self.step)


Operation = Load | Store | Move | Transpose | Mma | Fill | Map | Broadcast | Read | Set | Loop


@dataclass(frozen=True)
class Trace:
    """A program at one problem and one choice of tile sizes. Blocks cut ``extent`` into tiles of ``tile``."""

    arrays: tuple[Array, ...]
    extent: tuple[int, int]
    tile: tuple[int, int]
    operations: tuple[Operation, ...]
    chosen: tuple[tuple[str, int], ...]

    @property
    def blocks(self) -> tuple[int, int]:
        (m, n), (tile_m, tile_n) = self.extent, self.tile
        return -(-m // tile_m), -(-n // tile_n)
