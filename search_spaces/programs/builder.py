"""The language of tile programs in Python: a function that is called once with ``p`` and its arrays, and traced.

Shapes are checked as operations are made; every refusal names the file, the line, the operation and the rule. Rules of
the XeTile RFC are quoted as such.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, DType, dtype
from search_spaces.programs import ir
from search_spaces.programs.ir import Index, ProgramError, Source


@dataclass(frozen=True)
class Argument:
    """An array of a program: names of its one or two extents, and its type (f16, bf16 or f32)."""

    sizes: tuple[str, ...]
    dtype: DType
    is_output: bool


def _argument(sizes: str, type_: str, is_output: bool) -> Argument:
    names = tuple(sizes.split())
    if not 1 <= len(names) <= 2 or not all(name.isidentifier() for name in names):
        raise ProgramError(f'an array has one or two extents with names, such as "m k", not {sizes!r}')
    try:
        return Argument(names, dtype(type_, FLOAT_DTYPES), is_output)
    except ValueError as error:
        raise ProgramError(str(error)) from error


def Input(sizes: str, dtype: str) -> Argument:
    """An array that the program reads: ``Input("m k", "f16")``. Raises ProgramError."""
    return _argument(sizes, dtype, False)


def Output(sizes: str, dtype: str) -> Argument:
    """An array that the program writes. Raises ProgramError."""
    return _argument(sizes, dtype, True)


def _caller() -> Source:
    """The place of the nearest frame outside this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Source(Path(frame.f_code.co_filename).name, frame.f_lineno)


def _fail(operation: str, reason: str) -> NoReturn:
    raise ProgramError(f"{_caller()}: {operation}: {reason}")


class Tile:
    """A value of tile shape. Operators work element by element, with tiles of one shape and type or with numbers."""

    def __init__(self, builder: Builder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def shape(self) -> tuple[int, int]:
        return self.value.shape

    def __add__(self, other: Tile | State | float) -> Tile:
        return self.builder.map("add", self, other)

    def __radd__(self, other: float) -> Tile:
        return self.builder.map("add", other, self)

    def __sub__(self, other: Tile | State | float) -> Tile:
        return self.builder.map("subtract", self, other)

    def __rsub__(self, other: float) -> Tile:
        return self.builder.map("subtract", other, self)

    def __mul__(self, other: Tile | State | float) -> Tile:
        return self.builder.map("multiply", self, other)

    def __rmul__(self, other: float) -> Tile:
        return self.builder.map("multiply", other, self)

    def __truediv__(self, other: Tile | State | float) -> Tile:
        return self.builder.map("divide", self, other)

    def __rtruediv__(self, other: float) -> Tile:
        return self.builder.map("divide", other, self)

    def __neg__(self) -> Tile:
        return self.builder.map("subtract", 0.0, self)

    def __bool__(self) -> bool:
        _fail("if", "a tile has many values, and no thread may take a way of its own: use p.maximum or p.minimum")

    def cast(self, to: str) -> Tile:
        """The values rounded to another type. Raises ProgramError for an unknown one."""
        return self.builder.cast(self, to)


class State:
    """A variable that a loop carries."""

    def __init__(self, builder: Builder, number: int, shape: tuple[int, int], type_: DType) -> None:
        self.builder, self.number, self.shape, self.dtype = builder, number, shape, type_

    def set(self, value: Tile) -> None:
        """Give it another value. Raises ProgramError for another shape or type."""
        if (value.shape, value.value.dtype) != (self.shape, self.dtype):
            _fail("set", f"a state of {_shape(self.shape)} {self.dtype.name} cannot become {_told(value.value)}")
        self.builder.add(ir.Set(self.number, value.value, _caller()))

    def read(self) -> Tile:
        return self.builder.result(self.shape, self.dtype, lambda v: ir.Read(v, self.number, _caller()))

    def __add__(self, other: Tile | float) -> Tile:
        return self.read() + other

    def __radd__(self, other: float) -> Tile:
        return other + self.read()

    def __sub__(self, other: Tile | float) -> Tile:
        return self.read() - other

    def __mul__(self, other: Tile | float) -> Tile:
        return self.read() * other

    def __rmul__(self, other: float) -> Tile:
        return other * self.read()

    def __truediv__(self, other: Tile | float) -> Tile:
        return self.read() / other

    def cast(self, to: str) -> Tile:
        return self.read().cast(to)


class WindowHandle:
    """A window on an array, as a program moves it."""

    def __init__(self, builder: Builder, window: ir.Window) -> None:
        self.builder, self.window = builder, window

    def move(self, rows: int, columns: int) -> None:
        """Move it by so many elements, relative to where it is (RFC, update_tile_offset)."""
        self.builder.add(ir.Move(self.window, (rows, columns), _caller()))


def _shape(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def _told(value: ir.Value) -> str:
    return f"{_shape(value.shape)} {value.dtype.name}"


class Builder:
    """What a program's function gets as ``p``."""

    def __init__(self, chosen: Mapping[str, int]) -> None:
        self.chosen = dict(chosen)
        self.domains: dict[str, tuple[int, ...]] = {}
        self.extent: tuple[int, int] | None = None
        self.tile: tuple[int, int] = (0, 0)
        self.scopes: list[list[ir.Operation]] = [[]]
        self._count = 0

    def add(self, operation: ir.Operation) -> None:
        self.scopes[-1].append(operation)

    def _new(self) -> int:
        self._count += 1
        return self._count

    def result(self, shape: tuple[int, int], type_: DType, make: Callable[[ir.Value], ir.Operation]) -> Tile:
        value = ir.Value(self._new(), shape, type_)
        self.add(make(value))
        return Tile(self, value)

    def choose(self, **domains: tuple[int, ...]) -> int | tuple[int, ...]:
        """Sizes that the search decides on: ``bm, bn = p.choose(bm=(64, 128), bn=(64, 128))``."""
        for name, values in domains.items():
            if not name.isidentifier() or name in self.domains:
                _fail("choose", f"{name} is chosen twice")
            if not values or any(type(v) is not int or v < 1 for v in values):
                _fail("choose", f"{name} needs whole numbers from 1 up, not {values!r}")
            self.domains[name] = tuple(sorted(set(values)))
        found = tuple(self.chosen.get(name, self.domains[name][0]) for name in domains)
        return found[0] if len(found) == 1 else found

    def blocks(self, extent: tuple[int, int], tile: tuple[int, int]) -> tuple[Index, Index]:
        """Cut ``extent`` into tiles, one for each block; gives where the block's tile begins."""
        if self.extent is not None:
            _fail("blocks", "a program has one grid of blocks")
        if min(tile) < 1:
            _fail("blocks", f"a tile has at least one element, not {_shape(tile)}")
        self.extent, self.tile = extent, tile
        return Index(0, tile[0]), Index(1, tile[1])

    def window(
        self, array: ir.Array, at: tuple[Index | int, Index | int], shape: tuple[int, int], *, column: bool = False
    ) -> WindowHandle:
        """A tile of an array (RFC, init_tile). A vector is one row; with ``column`` it is one column."""
        if min(shape) < 1:
            _fail("window", f"a tile has at least one element, not {_shape(shape)}")
        if column and len(array.sizes) != 1:
            _fail("window", f"only a vector can be one column, and {array.name} has two extents")
        places = tuple(i if isinstance(i, Index) else Index(constant=i) for i in at)
        return WindowHandle(self, ir.Window(self._new(), array, (places[0], places[1]), shape, column))

    def load(self, window: WindowHandle) -> Tile:
        """The elements of a window (RFC, load_tile); 0 outside of the array."""
        array = window.window.array
        if array.role == "output":
            _fail("load", f"{array.name} is an output: a program does not read what it writes")
        return self.result(window.window.shape, array.dtype, lambda v: ir.Load(v, window.window, _caller()))

    def store(self, value: Tile | State, window: WindowHandle) -> None:
        """Write a value to a window of its shape and type (RFC, store_tile); nothing outside of the array."""
        tile, to = self._read(value), window.window
        if to.array.role == "input":
            _fail("store", f"{to.array.name} is an input")
        if tile.shape != to.shape:
            _fail(
                "store",
                f"value and tile need one shape (RFC, store_tile), not {_told(tile.value)} and {_shape(to.shape)}",
            )
        if tile.value.dtype != to.array.dtype:
            name = to.array.dtype.name
            _fail("store", f'the value is {tile.value.dtype.name}, but {to.array.name} is {name}: use .cast("{name}")')
        self.add(ir.Store(tile.value, to, _caller()))

    def zeros(self, shape: tuple[int, int], type_: str = "f32") -> Tile:
        return self.full(shape, 0.0, type_)

    def full(self, shape: tuple[int, int], number: float, type_: str = "f32") -> Tile:
        return self.result(shape, dtype(type_), lambda v: ir.Fill(v, float(number), _caller()))

    def state(self, value: Tile) -> State:
        """A variable that a loop carries, with its first value."""
        state = State(self, self._new(), value.shape, value.value.dtype)
        self.add(ir.Set(state.number, value.value, _caller()))
        return state

    def steps(self, extent: int, step: int) -> Iterator[None]:
        """``for _ in p.steps(k, bk):``, a loop of the program. Its body is traced once."""
        if step < 1:
            _fail("steps", f"a step has at least one element, not {step}")
        source = _caller()
        self.scopes.append([])
        yield None
        body = tuple(self.scopes.pop())
        self.add(ir.Loop(extent, step, body, source))

    def mma(self, a: Tile, b: Tile, c: Tile | State | None = None) -> Tile:
        """a @ b + c, added up in f32 (RFC, tile_mma)."""
        (m, k), (depth, n) = a.shape, b.shape
        if k != depth:
            _fail(
                "mma", f"the columns of a are the rows of b (RFC, tile_mma), not {_shape(a.shape)} @ {_shape(b.shape)}"
            )
        if a.value.dtype != b.value.dtype:
            _fail("mma", f"a and b need one type, not {a.value.dtype.name} and {b.value.dtype.name}")
        added = None if c is None else self._read(c).value
        if added is not None and (added.shape, added.dtype) != ((m, n), F32):
            _fail("mma", f"c must be {m}x{n} f32 (RFC, tile_mma), not {_told(added)}")
        return self.result((m, n), F32, lambda v: ir.Mma(v, a.value, b.value, added, _caller()))

    def transpose(self, value: Tile) -> Tile:
        """RFC, tile_transpose [1, 0]."""
        rows, columns = value.shape
        return self.result((columns, rows), value.value.dtype, lambda v: ir.Transpose(v, value.value, _caller()))

    def broadcast(self, value: Tile, dim: int, size: int) -> Tile:
        """Stretch a dimension of 1 to ``size`` (RFC, tile_broadcast)."""
        if dim not in (0, 1) or value.shape[dim] != 1:
            _fail("broadcast", f"dimension {dim} of {_shape(value.shape)} is not 1 (RFC, tile_broadcast)")
        shape = (size, value.shape[1]) if dim == 0 else (value.shape[0], size)
        return self.result(shape, value.value.dtype, lambda v: ir.Broadcast(v, value.value, dim, _caller()))

    def map(self, function: str, *arguments: Tile | State | float) -> Tile:
        """An element-wise function of f32 tiles and numbers, by its name in ``functions.py``."""
        read = [a if isinstance(a, (int, float)) else self._read(a) for a in arguments]
        tiles = [a.value for a in read if isinstance(a, Tile)]
        if len({t.shape for t in tiles}) != 1:
            given = " and ".join(map(_told, tiles))
            _fail(function, f"operands need one shape, not {given or 'numbers alone'}: use p.broadcast")
        if any(t.dtype != F32 for t in tiles):
            _fail(function, f'arithmetic is in f32, not {" and ".join(t.dtype.name for t in tiles)}: use .cast("f32")')
        values = tuple(a.value if isinstance(a, Tile) else float(a) for a in read)
        return self.result(tiles[0].shape, F32, lambda v: ir.Map(v, function, values, _caller()))

    def cast(self, value: Tile, to: str) -> Tile:
        try:
            type_ = dtype(to, FLOAT_DTYPES)
        except ValueError as error:
            _fail("cast", str(error))
        return self.result(value.shape, type_, lambda v: ir.Map(v, "cast", (value.value,), _caller()))

    def _read(self, value: Tile | State) -> Tile:
        return value.read() if isinstance(value, State) else value

    def maximum(self, a: Tile | State | float, b: Tile | State | float) -> Tile:
        return self.map("maximum", a, b)

    def minimum(self, a: Tile | State | float, b: Tile | State | float) -> Tile:
        return self.map("minimum", a, b)

    def exp(self, x: Tile | State) -> Tile:
        return self.map("exp", x)

    def tanh(self, x: Tile | State) -> Tile:
        return self.map("tanh", x)

    def sigmoid(self, x: Tile | State) -> Tile:
        return self.map("sigmoid", x)

    def sqrt(self, x: Tile | State) -> Tile:
        return self.map("sqrt", x)

    def absolute(self, x: Tile | State) -> Tile:
        return self.map("absolute", x)


@dataclass(frozen=True)
class Program:
    """A tile program: ``function(p, array, ..)`` and its arrays. ``content`` is the text that it was made from."""

    name: str
    function: Callable[..., None]
    arguments: tuple[tuple[str, Argument], ...]
    content: str
    summary: str

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the extents, in the order in which the arrays name them."""
        return tuple(dict.fromkeys(s for _, a in self.arguments for s in a.sizes))

    def domains(self, sizes: Mapping[str, int]) -> Mapping[str, tuple[int, ...]]:
        """What ``p.choose`` leaves open, by name. Raises ProgramError as ``trace`` does."""
        return self._run(sizes, {})[0].domains

    def trace(self, sizes: Mapping[str, int], chosen: Mapping[str, int]) -> ir.Trace:
        """The program at these sizes and choices. Raises ProgramError for one that breaks a rule."""
        builder, arrays = self._run(sizes, chosen)
        if builder.extent is None:
            raise ProgramError(f"{self.name}: a program cuts its result into blocks: call p.blocks")
        return ir.Trace(
            arrays, builder.extent, builder.tile, tuple(builder.scopes[0]), tuple(sorted(builder.chosen.items()))
        )

    def _run(self, sizes: Mapping[str, int], chosen: Mapping[str, int]) -> tuple[Builder, tuple[ir.Array, ...]]:
        builder = Builder(chosen)
        arrays = []
        for name, a in self.arguments:
            shape = tuple(sizes[s] for s in a.sizes)
            two = (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])
            arrays.append(ir.Array(name, "output" if a.is_output else "input", a.dtype, a.sizes, two))
        self.function(builder, *arrays)
        if len(builder.scopes) != 1:
            raise ProgramError(f"{self.name}: a loop over p.steps was left before its end: do not break out of it")
        return builder, tuple(arrays)


def program(**arguments: Argument) -> Callable[[Callable[..., None]], Program]:
    """Make a function a tile program: ``@program(a=Input("m k", "f16"), .., c=Output("m n", "f32"))``.

    The function is called with ``p`` and the arrays in this order. Raises ProgramError without an output.
    """

    def made(function: Callable[..., None]) -> Program:
        if not any(a.is_output for a in arguments.values()):
            raise ProgramError(f"{function.__name__}: a program needs an Output")
        try:
            content = Path(function.__code__.co_filename).read_text("utf-8")
        except OSError:  # typed into a prompt
            content = repr((function.__code__.co_code, function.__code__.co_consts, function.__code__.co_names))
        told = f"{arguments}\0{content}"
        summary = (function.__doc__ or "a tile program").strip().splitlines()[0]
        return Program(function.__name__, function, tuple(arguments.items()), told, summary)

    return made
