"""Tiles, states and windows: objects whose methods and operators add operations to the traced program."""

from __future__ import annotations

import contextlib
import difflib
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn, Protocol

from search_spaces.hardware.dtypes import DType
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import MisusedArray, ProgramError, Shape, Source


class Recorder(Protocol):
    """Methods of the builder that are called by the operators and methods of tiles."""

    def add(self, operation: ir.Operation) -> None:
        """Append an operation to the program."""

    def result(self, shape: Shape, type_: DType, make: Callable[[ir.Value], ir.Operation]) -> Tile:
        """Append an operation, and return its result as a tile."""

    def map(self, function: str, *operands: object) -> Tile:
        """Apply an element-wise function to tiles and numbers."""

    def either(self, truths: str, bits: str, a: Operand, b: Operand) -> Tile:
        """Apply ``&`` or ``|`` to truth values, or to the bits of whole numbers."""

    def cast(self, value: Tile, to: str) -> Tile:
        """Convert a tile to another type."""

    def part_of(self, value: Tile, key: object) -> Tile:
        """Return ``value[key]``."""

    def power(self, x: Operand, exponent: Operand) -> Tile:
        """Return ``x`` raised to the power ``exponent``."""

    def window(
        self,
        array: ir.Array,
        at: Tile | tuple[IndexLike, IndexLike],
        shape: Shape,
        *,
        turned: bool = False,
        column: bool = False,
        map: WgMap | None = None,
    ) -> WindowHandle:
        """Return a tile-shaped window on an array."""


_source: ContextVar[Source | None] = ContextVar("source", default=None)


@contextmanager
def at_source(source: Source) -> Iterator[None]:
    """Use ``source`` as the position of all operations in the ``with`` body, for programs read from listings."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


_OWN_FOLDER = Path(__file__).parents[1]
_NAMES = ("tracing", "named_functions", "scalars", "loops", "slices", "reductions", "memory")
_OURS = (__file__, *(str(Path(__file__).with_name(f"{name}.py")) for name in _NAMES), contextlib.__file__)


def caller() -> Source:
    """Return the position in the user's code that called the builder, or else the position set by ``at_source``."""
    source = _source.get()
    if source is not None:
        return source
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in _OURS:
        frame = frame.f_back
    return Source(Path(frame.f_code.co_filename).name, frame.f_lineno)


def fail(operation: str, reason: str) -> NoReturn:
    """Raise ProgramError with the position in the user's code."""
    raise ProgramError(f"{caller()}: {operation}: {reason}")


def located(error: Exception, function: Callable[..., object]) -> ProgramError:
    """Convert an exception in a traced function to a one-line ProgramError with the position in the user's file."""
    if isinstance(error, ProgramError) and not isinstance(error, MisusedArray):
        return error
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = [line for _, line in traceback.walk_tb(error.__traceback__)]
    folder = Path(function.__code__.co_filename).parent
    files = [Path(frame.f_code.co_filename) for frame in frames]
    theirs = [at for at, file in enumerate(files) if file.parent == folder and not file.is_relative_to(_OWN_FOLDER)]
    at = max(theirs, default=len(frames) - 1)
    location = Source(Path(frames[at].f_code.co_filename).name, lines[at] or 0)
    text = " ".join(str(error).split()) or "without a message"
    kind = "" if isinstance(error, MisusedArray) else f"{type(error).__name__}: "
    return ProgramError(f"{location}: {kind}{text}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the most similar known name, or the list of all known names."""
    public = sorted(n for n in known if not n.startswith("_"))
    near = difflib.get_close_matches(name, public, 1, 0.5)
    return f"did you mean {near[0]}?" if near else f"use {', '.join(public)}"


def constant_text(value: object) -> str:
    """Return the text of an invalid value for messages that ask for a constant whole number."""
    return f"{value!r}" + (", whose value is only known at run time" if isinstance(value, Index) else "")


def shape_text(shape: Shape) -> str:
    """Return a shape as text."""
    return f"{shape[0]}x{shape[1]}"


def value_text(value: ir.Value) -> str:
    """Return the shape and type of a value as text."""
    return f"{shape_text(value.shape)} {value.dtype.name}"


def tile_of(operation: str, value: object) -> Tile:
    """Return a tile as it is, or the current value of a state. Raises ProgramError for other values."""
    if isinstance(value, WindowHandle):
        fail(operation, f"expected a tile, not a window of {value.window.array.name}: load the window")
    if not isinstance(value, Arithmetic):
        fail(operation, f"expected a tile, not {value!r}")
    return value.tile()


class Arithmetic(ABC):
    """Element-wise operators between tiles, states and numbers; extents of 1 are broadcast."""

    builder: Recorder

    @abstractmethod
    def tile(self) -> Tile:
        """Return the tile, or the current value of the state."""

    def __add__(self, other: Operand) -> Tile:
        return self.builder.map("add", self, other)

    def __radd__(self, other: float) -> Tile:
        return self.builder.map("add", other, self)

    def __sub__(self, other: Operand) -> Tile:
        return self.builder.map("subtract", self, other)

    def __rsub__(self, other: float) -> Tile:
        return self.builder.map("subtract", other, self)

    def __mul__(self, other: Operand) -> Tile:
        return self.builder.map("multiply", self, other)

    def __rmul__(self, other: float) -> Tile:
        return self.builder.map("multiply", other, self)

    def __truediv__(self, other: Operand) -> Tile:
        return self.builder.map("divide", self, other)

    def __rtruediv__(self, other: float) -> Tile:
        return self.builder.map("divide", other, self)

    def __neg__(self) -> Tile:
        return self.builder.map("subtract", 0.0, self)

    def __lt__(self, other: Operand) -> Tile:
        return self.builder.map("less", self, other)

    def __le__(self, other: Operand) -> Tile:
        return self.builder.map("less_equal", self, other)

    def __gt__(self, other: Operand) -> Tile:
        return self.builder.map("less", other, self)

    def __ge__(self, other: Operand) -> Tile:
        return self.builder.map("less_equal", other, self)

    def __eq__(self, other: Operand) -> Tile:  # type: ignore[override]  # as numpy's
        return self.builder.map("equal", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Operand) -> Tile:
        return self.builder.either("and", "bit_and", self.tile(), other)

    def __or__(self, other: Operand) -> Tile:
        return self.builder.either("or", "bit_or", self.tile(), other)

    def __xor__(self, other: Operand) -> Tile:
        return self.builder.map("bit_xor", self, other)

    def __invert__(self) -> Tile:
        return self.builder.map("not", self)

    def __rshift__(self, other: int) -> Tile:
        return self.builder.map("shift_right", self, other)

    def __lshift__(self, other: int) -> Tile:
        return self.builder.map("shift_left", self, other)

    def __mod__(self, other: int) -> Tile:
        if type(other) is int and other < 1:
            fail("%", f"the divisor must be a positive whole number, not {other}")
        return self.builder.map("modulo", self, other)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        fail(name, f"a tile does not have {name}: {nearest(name, (*dir(type(self)), *vars(self)))}")

    def __getitem__(self, key: object) -> Tile:
        return self.builder.part_of(self.tile(), key)

    def __iter__(self) -> NoReturn:
        fail("for", "Python cannot iterate over a tile: operations apply to all its elements")

    def __matmul__(self, other: object) -> NoReturn:
        fail("@", "use p.mma(a, b, c) for products")

    def __pow__(self, exponent: Operand) -> Tile:
        return self.builder.power(self.tile(), exponent)

    def __floordiv__(self, divisor: int) -> Tile:
        if type(divisor) is not int or divisor < 1:
            fail("//", f"the divisor must be a positive whole number, not {divisor!r}")
        return self.builder.map("floor_divide", self, divisor)

    def __bool__(self) -> bool:
        fail("if", "a tile has many values, and threads must not diverge: use p.where")

    def cast(self, to: str) -> Tile:
        """Convert to another type, with rounding if necessary. Raises ProgramError if the type is unknown."""
        return self.builder.cast(self.tile(), to)


class Tile(Arithmetic):
    """A tile: a matrix of elements, the result of an operation."""

    def __init__(self, builder: Recorder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def shape(self) -> Shape:
        """(rows, columns)."""
        return self.value.shape

    def tile(self) -> Tile:
        """Return the tile itself."""
        return self


class State(Arithmetic):
    """A variable that a loop carries.

    Args:
        builder: Recorder of the program.
        number: Number that identifies the state.
        shape: (rows, columns).
        type_: Element type.
    """

    def __init__(self, builder: Recorder, number: int, shape: Shape, type_: DType) -> None:
        self.builder, self.number, self.shape, self.dtype = builder, number, shape, type_

    def set(self, value: Tile | State) -> None:
        """Assign a new value. Raises ProgramError if the shape or type differs from the state's."""
        tile = tile_of("set", value)
        if (tile.shape, tile.value.dtype) != (self.shape, self.dtype):
            fail(
                "set",
                f"the state is {shape_text(self.shape)} {self.dtype.name}, but the value {value_text(tile.value)}: "
                "use one shape and type",
            )
        self.builder.add(ir.Set(self.number, tile.value, caller()))

    def read(self) -> Tile:
        """Return the current value."""
        return self.builder.result(self.shape, self.dtype, lambda v: ir.Read(v, self.number, caller()))

    def tile(self) -> Tile:
        """Return the current value."""
        return self.read()


class WindowHandle:
    """A window on an array. The program can move the window."""

    def __init__(self, builder: Recorder, window: ir.Window) -> None:
        self.builder, self.window = builder, window

    @property
    def shape(self) -> Shape:
        """(rows, columns)."""
        return self.window.shape

    def move(self, rows: int, columns: int) -> None:
        """Shift the window by rows and columns relative to its position (RFC, update_tile_offset)."""
        self._check_plain("move")
        self.builder.add(ir.Move(self.window, (rows, columns), caller()))

    def moved(self, rows: int, columns: int) -> WindowHandle:
        """Return a new window of the same shape, shifted relative to this window's initial position."""
        self._check_plain("moved")
        at = (self.window.at[0] + rows, self.window.at[1] + columns)
        window = self.window
        return self.builder.window(window.array, at, window.shape, turned=window.turned, map=window.map)

    def _check_plain(self, operation: str) -> None:
        if self.window.index is not None:
            fail(operation, "a window indexed by tiles cannot move: create another window with p.window")


Operand = Tile | State | Index | float
IndexLike = Index | int | Tile | State
