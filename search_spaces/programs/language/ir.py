"""What a tile program is: windows on arrays, values of tile shape, and the operations between them.

A trace is the program at the sizes of one problem and one choice of tile sizes, so that every shape is a number.
Operation names in brackets are those of the XeTile RFC.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from search_spaces.hardware.block_scaling import BLOCK_FORMATS, BlockFormat
from search_spaces.programs.language.arrays import (
    Array,
    Given,
    MisusedArray,
    ProgramError,
    Shape,
    Source,
    Value,
    Window,
    line_dimension,
)
from search_spaces.programs.language.index import MOST_SIZE, Index

__all__ = [
    "Array",
    "AtomicFetch",
    "AtomicRmw",
    "Broadcast",
    "Computing",
    "Convert",
    "Coordinates",
    "FetchPart",
    "Fill",
    "Given",
    "If",
    "LoadScalar",
    "LoadTile",
    "Loop",
    "Map",
    "MisusedArray",
    "Mma",
    "Move",
    "Operation",
    "PassedScalar",
    "Prefetch",
    "ProgramError",
    "Read",
    "ReduceTile",
    "Region",
    "Reshape",
    "Scan",
    "Set",
    "Shape",
    "Source",
    "StoreTile",
    "Trace",
    "TransposeTile",
    "Uniform",
    "Value",
    "Window",
    "block_format",
    "inputs",
    "line_dimension",
    "spelled",
    "walk_body",
    "without_unused_values",
]


@dataclass(frozen=True)
class LoadTile:
    """``padding`` is what lies outside of the array (load_tile)."""

    result: Value
    window: Window
    padding: float
    source: Source


@dataclass(frozen=True)
class StoreTile:
    """Nothing outside of the array is written (store_tile), and nothing from row ``rows_below`` of it on."""

    value: Value
    window: Window
    source: Source
    rows_below: Index | None = None


@dataclass(frozen=True)
class AtomicRmw:
    """Each element of the window becomes its combination with the value (atomic_rmw)."""

    kind: str
    value: Value
    window: Window
    source: Source


@dataclass(frozen=True)
class AtomicFetch(AtomicRmw):
    """Also gives what each element was before; 0 outside of the array."""

    result: Value


@dataclass(frozen=True)
class Prefetch:
    """``locality`` from 0, which keeps nothing, to 3, the nearest cache (prefetch_tile)."""

    window: Window
    locality: int
    source: Source


@dataclass(frozen=True)
class LoadScalar:
    """``index`` becomes a number of ``array``, or the nearest of its range; the same for all threads of a block.

    ``ordered``: the numbers of the array ascend along its last dimension.
    """

    index: Index
    array: Array
    ordered: bool
    source: Source

    @property
    def low(self) -> int:
        return self.index.args[0].number

    @property
    def high(self) -> int:
        return self.index.args[1].number

    @property
    def at(self) -> tuple[Index, ...]:
        """Its position along each dimension of the array."""
        return self.index.args[3:]


@dataclass(frozen=True)
class Uniform:
    """``index`` becomes the only number of ``value``, or the nearest of its range."""

    index: Index
    value: Value
    source: Source


@dataclass(frozen=True)
class Move:
    """Relative to where the window is (update_tile_offset)."""

    window: Window
    by: Shape
    source: Source


@dataclass(frozen=True)
class TransposeTile:
    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order: rows are cut into equal parts, or neighbours joined."""

    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class Mma:
    """``result = a @ b + c``; without ``c``, a @ b (tile_mma). ``tf32``: factors may be rounded to it. ``scales``: of a
    and of b, one for each block along k (``hardware.block_scaling``).
    """

    result: Value
    a: Value
    b: Value
    c: Value | None
    source: Source
    tf32: bool = False
    scales: tuple[Value, Value] | None = None

    @property
    def blocks(self) -> BlockFormat | None:
        """The format of a and b; None without scales."""
        return None if self.scales is None else block_format(self.a, self.scales[0])


@dataclass(frozen=True)
class Fill:
    result: Value
    number: float
    source: Source


@dataclass(frozen=True)
class PassedScalar:
    """The number that a launch passes by value under ``name``; here it is ``number``."""

    result: Value
    name: str
    number: float
    source: Source


@dataclass(frozen=True)
class Coordinates:
    """The places along ``dimension``, from ``base`` on: an index vector of one row or one column."""

    result: Value
    dimension: int
    base: Index
    source: Source


@dataclass(frozen=True)
class Map:
    """An element-wise function of values and numbers (``functions.py``); a cast is the function ``cast``."""

    result: Value
    function: str
    arguments: tuple[Value | float, ...]
    source: Source


@dataclass(frozen=True)
class ReduceTile:
    """``size`` neighbours along ``dimension`` become one (reduction, reduction_size).

    ``index``: a whole number that goes with each element; the result is that of the element which a kind such as
    "argmax" picks, and the least of equal elements.
    """

    result: Value
    kind: str
    value: Value
    dimension: int
    source: Source
    index: Value | None = None

    @property
    def size(self) -> int:
        return self.value.shape[self.dimension] // self.result.shape[self.dimension]


@dataclass(frozen=True)
class Scan:
    """Each element becomes all up to it along ``dimension`` joined. ``exclusive``: without itself. ``reverse``: those
    from it on.
    """

    result: Value
    kind: str
    value: Value
    dimension: int
    exclusive: bool
    reverse: bool
    source: Source


@dataclass(frozen=True)
class Broadcast:
    """Each element fills ``size`` neighbours along ``dimension`` (broadcast, broadcast_size)."""

    result: Value
    value: Value
    dimension: int
    source: Source

    @property
    def size(self) -> int:
        return self.result.shape[self.dimension] // self.value.shape[self.dimension]


@dataclass(frozen=True)
class Convert:
    """The same value, held by other threads (convert_layout, to_layout). ``shared``: through shared memory."""

    result: Value
    value: Value
    shared: bool
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
class FetchPart:
    """``others`` become what part ``part`` of the blocks that share a loop has in ``states``."""

    states: tuple[int, ...]
    others: tuple[int, ...]
    part: Index
    source: Source


@dataclass(frozen=True)
class Loop:
    """``first``, ``first + step``, .. while less than ``stop``. Its ``body`` was traced once. ``parts``: blocks that
    share the iterations, or 0 where the program says nothing about that.
    """

    number: int
    first: Index
    stop: Index
    step: int
    body: tuple[Operation, ...]
    source: Source
    parts: int = 0

    def turns(self, block: tuple[int, ...], loops: dict[int, int]) -> int:
        return max(0, -(-(self.stop.at(block, loops) - self.first.at(block, loops)) // self.step))

    def most_turns(self, blocks: tuple[int, ...], around: dict[int, int]) -> int:
        (low, _), (_, high) = self.first.interval(blocks, around), self.stop.interval(blocks, around)
        return max(0, -(-(high - low) // self.step))


@dataclass(frozen=True)
class If:
    """``body`` runs where ``place`` is ``equals``, which is the same for all threads of a block."""

    number: int
    place: Index
    equals: int
    body: tuple[Operation, ...]
    source: Source


Operation = (
    LoadTile | StoreTile | AtomicRmw | AtomicFetch | Prefetch | Move | TransposeTile | Reshape | Mma | Fill
    | PassedScalar
    | Coordinates | Map | ReduceTile | Scan | Broadcast | Convert | Read | Set | Loop | If | LoadScalar | Uniform
    | FetchPart
)  # fmt: skip
Region = Loop | If
Computing = (
    LoadTile | AtomicFetch | TransposeTile | Reshape | Mma | Fill | PassedScalar | Coordinates | Map | ReduceTile | Scan
    | Broadcast | Convert | Read
)  # fmt: skip


def block_format(factor: Value, scale: Value) -> BlockFormat | None:
    """Return the format of a left factor and its scales; None if there is none for their types and numbers."""
    for row in BLOCK_FORMATS.values():
        if row.element == factor.dtype and factor.shape[1] == scale.shape[1] * row.block_elements:
            return row
    return None


def spelled(operation: Operation) -> str:
    """Return the name of an operation in messages and listings, such as "load"."""
    return "atomic_rmw" if isinstance(operation, AtomicRmw) else type(operation).__name__.removesuffix("Tile").lower()


@dataclass(frozen=True)
class Trace:
    """A program at one problem and one choice of tile sizes. Blocks cut ``extent`` into tiles of ``tile``."""

    name: str
    arrays: tuple[Array, ...]
    extent: tuple[int, ...]
    tile: tuple[int, ...]
    operations: tuple[Operation, ...]
    chosen: tuple[tuple[str, int], ...]
    dynamic: tuple[Index | None, ...] = ()  # the extents that a launch says

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        return tuple(-(-n // t) for n, t in zip(self.extent, self.tile, strict=True))

    @cached_property
    def most_blocks(self) -> tuple[int, ...]:
        """The most blocks along each axis in any launch."""
        sizes = self.dynamic or (None,) * len(self.tile)
        return tuple(
            n if size is None else -(-MOST_SIZE // t) for n, size, t in zip(self.blocks, sizes, self.tile, strict=True)
        )

    @property
    def is_dynamic(self) -> bool:
        """Whether a launch says some size, or how far lines of an array lie apart."""
        return any(array.dynamic is not None or array.pitch is not None for array in self.arrays)

    @property
    def block_count(self) -> int:
        return math.prod(self.blocks)

    @cached_property
    def mapped(self) -> bool:
        """Whether the user says who holds what of some value."""
        return any(
            o.result.map is not None
            for o, _ in self.walk()
            if not isinstance(
                o, StoreTile | AtomicRmw | Prefetch | Move | Set | Loop | If | LoadScalar | Uniform | FetchPart
            )
        )

    @cached_property
    def shared(self) -> tuple[Array, ...]:
        """The tiles in shared memory that the program asks for, in the order in which it uses them."""
        windows = [o.window for o, _ in self.walk() if isinstance(o, LoadTile | StoreTile)]
        return tuple(dict.fromkeys(w.array for w in windows if w.array.role == "shared"))

    def walk(self) -> Iterator[tuple[Operation, tuple[Region, ...]]]:
        """Every operation, with the loops and conditions around it."""
        yield from _walk(self.operations, ())

    @cached_property
    def packed(self) -> tuple[Array, ...]:
        """The arrays that lie in memory in another order."""
        windows = (o.window for o, _ in self.walk() if isinstance(o, LoadTile))
        return tuple(dict.fromkeys(w.array for w in windows if w.array.order is not None))

    def turns(self) -> dict[int, int]:
        """Return the most turns of each loop, by its number."""
        return dict(self._turns)

    @cached_property
    def _turns(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for operation, _ in self.walk():
            if isinstance(operation, Loop):
                found[operation.number] = operation.most_turns(self.most_blocks, found)
        return found


def _walk(
    operations: tuple[Operation, ...], around: tuple[Region, ...]
) -> Iterator[tuple[Operation, tuple[Region, ...]]]:
    for operation in operations:
        yield operation, around
        if isinstance(operation, Loop | If):
            yield from _walk(operation.body, (*around, operation))


def walk_body(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """Return the operations of a body and of the bodies in it."""
    return (operation for operation, _ in _walk(operations, ()))


def without_unused_values(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Return a program whose atomics give old values only where some operation takes them."""
    used = {value.id for operation in walk_body(operations) for value in inputs(operation)}

    def rebuilt(body: tuple[Operation, ...]) -> tuple[Operation, ...]:
        found = list[Operation]()
        for o in body:
            if isinstance(o, Loop | If):
                found.append(replace(o, body=rebuilt(o.body)))
            elif isinstance(o, AtomicFetch) and o.result.id not in used:
                found.append(AtomicRmw(o.kind, o.value, o.window, o.source))
            else:
                found.append(o)
        return tuple(found)

    return rebuilt(operations)


def inputs(operation: Operation) -> tuple[Value, ...]:
    """Return the values that an operation takes."""
    match operation:
        case Map():
            return tuple(a for a in operation.arguments if isinstance(a, Value))
        case Mma(_, a, b, c):
            return (a, b, *(() if c is None else (c,)), *(operation.scales or ()))
        case LoadTile(_, window):
            return () if window.index is None else (window.index,)
        case StoreTile(value, window) | AtomicRmw(_, value, window):
            return (value,) if window.index is None else (value, window.index)
        case ReduceTile(_, _, value) if operation.index is not None:
            return (value, operation.index)
        case TransposeTile() | Reshape() | ReduceTile() | Scan() | Broadcast() | Convert() | Set() | Uniform():
            return (operation.value,)
    return ()
