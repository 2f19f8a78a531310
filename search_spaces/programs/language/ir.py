"""The operations of a tile program, between windows on arrays and values of tile shape.

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
    """Load a window; elements outside of the array are ``padding`` (load_tile)."""

    result: Value
    window: Window
    padding: float
    source: Source


@dataclass(frozen=True)
class StoreTile:
    """Store to a window; nothing outside of the array nor from its row ``rows_below`` on is written (store_tile)."""

    value: Value
    window: Window
    source: Source
    rows_below: Index | None = None


@dataclass(frozen=True)
class AtomicRmw:
    """Combine each element of the window with the value (atomic_rmw)."""

    kind: str
    value: Value
    window: Window
    source: Source


@dataclass(frozen=True)
class AtomicFetch(AtomicRmw):
    """An AtomicRmw that also returns the old elements; 0 outside of the array."""

    result: Value


@dataclass(frozen=True)
class Prefetch:
    """Prefetch a window; ``locality`` goes from 0, which keeps nothing, to 3, the nearest cache (prefetch_tile)."""

    window: Window
    locality: int
    source: Source


@dataclass(frozen=True)
class LoadScalar:
    """Load a number of ``array``, clamped to its range, the same for all threads of a block, as ``index``.

    ``ordered``: the numbers of the array ascend along its last dimension.
    """

    index: Index
    array: Array
    ordered: bool
    source: Source

    @property
    def low(self) -> int:
        """The smallest number of the range."""
        return self.index.args[0].number

    @property
    def high(self) -> int:
        """The largest number of the range."""
        return self.index.args[1].number

    @property
    def at(self) -> tuple[Index, ...]:
        """Position along each dimension of the array."""
        return self.index.args[3:]


@dataclass(frozen=True)
class Uniform:
    """Turn the only number of ``value``, clamped to its range, into ``index``."""

    index: Index
    value: Value
    source: Source


@dataclass(frozen=True)
class Move:
    """Shift a window by rows and columns relative to its position (update_tile_offset)."""

    window: Window
    by: Shape
    source: Source


@dataclass(frozen=True)
class TransposeTile:
    """Transpose a tile (transpose)."""

    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order: rows are split into equal parts, or consecutive rows joined."""

    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class Mma:
    """``result = a @ b + c``, or ``a @ b`` without ``c`` (tile_mma).

    Attributes:
        tf32: True if factors may be rounded to tf32.
        scales: Scales of a and of b, one for each block along k (``hardware.block_scaling``).
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
        """Block format of a and b, or None without scales."""
        return None if self.scales is None else block_format(self.a, self.scales[0])


@dataclass(frozen=True)
class Fill:
    """A tile of one number."""

    result: Value
    number: float
    source: Source


@dataclass(frozen=True)
class PassedScalar:
    """A number that each launch passes by value under ``name``; in this problem it is ``number``."""

    result: Value
    name: str
    number: float
    source: Source


@dataclass(frozen=True)
class Coordinates:
    """Positions along ``dimension`` starting at ``base``: an index vector of one row or one column."""

    result: Value
    dimension: int
    base: Index
    source: Source


@dataclass(frozen=True)
class Map:
    """An element-wise function of values and numbers (``functions.py``), such as ``cast``."""

    result: Value
    function: str
    arguments: tuple[Value | float, ...]
    source: Source


@dataclass(frozen=True)
class ReduceTile:
    """Reduce each ``size`` neighbours along ``dimension`` to one element (reduction, reduction_size).

    ``index``: a whole number per element. The result is then the index of the element that a kind such as "argmax"
    picks, the smallest one among equal elements.
    """

    result: Value
    kind: str
    value: Value
    dimension: int
    source: Source
    index: Value | None = None

    @property
    def size(self) -> int:
        """Neighbours that are reduced to one element."""
        return self.value.shape[self.dimension] // self.result.shape[self.dimension]


@dataclass(frozen=True)
class Scan:
    """Running reduction along ``dimension``. ``exclusive``: without the element itself. ``reverse``: from the end."""

    result: Value
    kind: str
    value: Value
    dimension: int
    exclusive: bool
    reverse: bool
    source: Source


@dataclass(frozen=True)
class Broadcast:
    """Repeat each element ``size`` times along ``dimension`` (broadcast, broadcast_size)."""

    result: Value
    value: Value
    dimension: int
    source: Source

    @property
    def size(self) -> int:
        """Neighbours that each element becomes."""
        return self.result.shape[self.dimension] // self.value.shape[self.dimension]


@dataclass(frozen=True)
class Convert:
    """Redistribute a value to other threads (convert_layout, to_layout). ``shared``: through shared memory."""

    result: Value
    value: Value
    shared: bool
    source: Source


@dataclass(frozen=True)
class Read:
    """Read a state, a variable that a loop carries."""

    result: Value
    state: int
    source: Source


@dataclass(frozen=True)
class Set:
    """Assign a value to a state."""

    state: int
    value: Value
    source: Source


@dataclass(frozen=True)
class FetchPart:
    """Set ``others`` to the ``states`` of block ``part`` among the blocks that share a loop."""

    states: tuple[int, ...]
    others: tuple[int, ...]
    part: Index
    source: Source


@dataclass(frozen=True)
class Loop:
    """A loop over ``first``, ``first + step``, ... below ``stop``, whose ``body`` was traced once.

    ``parts``: number of blocks that share the iterations, or 0 if the program does not split the loop.
    """

    number: int
    first: Index
    stop: Index
    step: int
    body: tuple[Operation, ...]
    source: Source
    parts: int = 0

    def turns(self, block: tuple[int, ...], loops: dict[int, int]) -> int:
        """Return the number of iterations in a block, in one iteration of each loop around it."""
        return max(0, -(-(self.stop.at(block, loops) - self.first.at(block, loops)) // self.step))

    def most_turns(self, blocks: tuple[int, ...], around: dict[int, int]) -> int:
        """Return the largest number of iterations in any block."""
        (low, _), (_, high) = self.first.interval(blocks, around), self.stop.interval(blocks, around)
        return max(0, -(-(high - low) // self.step))


@dataclass(frozen=True)
class If:
    """Run ``body`` if ``place`` is ``equals``, which is the same for all threads of a block."""

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
    """Return the block format of a left factor and its scales, or None if their types and counts match none."""
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
    dynamic: tuple[Index | None, ...] = ()  # the extents that each launch passes
    place: str = ""  # file and line of the program, for messages

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Blocks along each axis of the grid."""
        return tuple(-(-n // t) for n, t in zip(self.extent, self.tile, strict=True))

    @cached_property
    def most_blocks(self) -> tuple[int, ...]:
        """The largest number of blocks along each axis in any launch."""
        sizes = self.dynamic or (None,) * len(self.tile)
        return tuple(
            n if size is None else -(-MOST_SIZE // t) for n, size, t in zip(self.blocks, sizes, self.tile, strict=True)
        )

    @property
    def is_dynamic(self) -> bool:
        """True if launches pass a size or the distance between lines of an array."""
        return any(array.dynamic is not None or array.pitch is not None for array in self.arrays)

    @property
    def block_count(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.blocks)

    @cached_property
    def mapped(self) -> bool:
        """True if the user chooses which threads hold which elements of any value."""
        return any(
            o.result.map is not None
            for o, _ in self.walk()
            if not isinstance(
                o, StoreTile | AtomicRmw | Prefetch | Move | Set | Loop | If | LoadScalar | Uniform | FetchPart
            )
        )

    @cached_property
    def shared(self) -> tuple[Array, ...]:
        """The program's own tiles in shared memory, in the order of their first use."""
        windows = [o.window for o, _ in self.walk() if isinstance(o, LoadTile | StoreTile)]
        return tuple(dict.fromkeys(w.array for w in windows if w.array.role == "shared"))

    def walk(self) -> Iterator[tuple[Operation, tuple[Region, ...]]]:
        """Yield every operation, with the loops and conditions around it."""
        yield from _walk(self.operations, ())

    @cached_property
    def packed(self) -> tuple[Array, ...]:
        """The arrays with another memory order."""
        windows = (o.window for o, _ in self.walk() if isinstance(o, LoadTile))
        return tuple(dict.fromkeys(w.array for w in windows if w.array.order is not None))

    def turns(self) -> dict[int, int]:
        """Return the largest number of iterations of each loop, by its number."""
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
    """Yield the operations of a body and of the bodies nested in it."""
    return (operation for operation, _ in _walk(operations, ()))


def without_unused_values(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Return a program in which atomics fetch old values only if some operation uses them."""
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
    """Return the values that an operation reads."""
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
