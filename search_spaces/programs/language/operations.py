"""The operations of a tile program. Names in parentheses are from the XeTile RFC."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.hardware.block_scaling import BLOCK_FORMATS, BlockFormat
from search_spaces.programs.language.arrays import Array, Shape, Source, Value, Window
from search_spaces.programs.language.index import Index


@dataclass(frozen=True)
class LoadTile:
    """Load a window; elements outside of the array are ``padding`` (load_tile)."""

    result: Value
    window: Window
    padding: float
    source: Source


@dataclass(frozen=True)
class StoreTile:
    """Store to a window (store_tile).

    Elements outside of the array are not written. Rows of the array from ``rows_below`` on are not written either.
    """

    value: Value
    window: Window
    source: Source
    rows_below: Index | None = None


@dataclass(frozen=True)
class AtomicRmw:
    """Combine each element of the window with the corresponding element of the value (atomic_rmw)."""

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
    """Prefetch a window (prefetch_tile). ``locality`` selects the cache: 3 is L1, 1 and 2 are L2, 0 is no prefetch."""

    window: Window
    locality: int
    source: Source


@dataclass(frozen=True)
class LoadScalar:
    """In each block, load one element of ``array``, clamp it to the range of ``index``, and use it as ``index``.

    ``ordered``: True if the numbers ascend along the last dimension of the array.
    """

    index: Index
    array: Array
    ordered: bool
    source: Source

    @property
    def low(self) -> int:
        """Lower end of the index's range."""
        return self.index.args[0].number

    @property
    def high(self) -> int:
        """Upper end of the index's range."""
        return self.index.args[1].number

    @property
    def at(self) -> tuple[Index, ...]:
        """Position of the loaded number: an index for each dimension of the array."""
        return self.index.args[3:]


@dataclass(frozen=True)
class Uniform:
    """Convert the 1x1 tile ``value`` to ``index``, clamped to the index's range."""

    index: Index
    value: Value
    source: Source


@dataclass(frozen=True)
class FindTile:
    """Find the group that contains the tile with index ``tile``. Each group is divided into tiles of ``size`` elements.

    Group g has the elements from ``array[g]`` to ``array[g + 1]``. The results are the index ``group`` of the group,
    and the index ``first`` of the group's first tile. If there is no such tile, ``group`` is the number of groups and
    ``first`` the number of tiles.
    """

    group: Index
    first: Index
    array: Array
    tile: Index
    size: int
    source: Source

    @property
    def high(self) -> int:
        """Upper limit of the offsets stored in ``array``; larger offsets are clamped to it."""
        return self.first.args[3].number

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.array.full[0] - 1


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
    """Reshape a tile without changing its row-major order: split rows equally, or join consecutive rows."""

    result: Value
    value: Value
    source: Source


@dataclass(frozen=True)
class PadTile:
    """Append zeros to ``value`` along ``dimension``.

    ``wide``: An optional value that has the result's shape and begins with the elements of ``value``. If given, it is
    used instead of ``value``.
    """

    result: Value
    value: Value
    dimension: int
    source: Source
    wide: Value | None = None

    @property
    def depth(self) -> int:
        """Number of elements along ``dimension`` before the zeros."""
        return self.value.shape[self.dimension]


@dataclass(frozen=True)
class Mma:
    """``result = a @ b + c``, or ``a @ b`` without ``c`` (tile_mma).

    Attributes:
        tf32: True if operands may be rounded to tf32.
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
        """Block-scaled format of a and b, or None if there are no scales."""
        return None if self.scales is None else block_format(self.a, self.scales[0])


@dataclass(frozen=True)
class Fill:
    """A tile that is filled with one constant number."""

    result: Value
    number: float
    source: Source


@dataclass(frozen=True)
class PassedScalar:
    """A tile filled with the scalar argument ``name`` of the kernel. ``number`` is its value in this problem."""

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
    """Reduce groups of ``size`` consecutive elements along ``dimension`` (reduction, reduction_size).

    ``index``: For kinds such as "argmax", a whole number per element. The result is the ``index`` of the picked
    element, which has the smallest index among equal elements.
    """

    result: Value
    kind: str
    value: Value
    dimension: int
    source: Source
    index: Value | None = None

    @property
    def size(self) -> int:
        """Number of elements that are reduced to one."""
        return self.value.shape[self.dimension] // self.result.shape[self.dimension]


@dataclass(frozen=True)
class Scan:
    """Running reduction along ``dimension``.

    ``exclusive``: Each result excludes the element at its own position. ``reverse``: The scan starts at the last
    element.
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
    """Repeat each element ``size`` times along ``dimension`` (broadcast, broadcast_size)."""

    result: Value
    value: Value
    dimension: int
    source: Source

    @property
    def size(self) -> int:
        """Number of copies of each element."""
        return self.result.shape[self.dimension] // self.value.shape[self.dimension]


@dataclass(frozen=True)
class Convert:
    """Redistribute a value to other threads (convert_layout, to_layout).

    ``shared``: True if the value goes through shared memory.
    """

    result: Value
    value: Value
    shared: bool
    source: Source


@dataclass(frozen=True)
class Read:
    """Read a state: a variable that loop iterations can read and set."""

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
    """Set ``copies`` to the final values of ``states`` in block number ``part`` of a split loop."""

    states: tuple[int, ...]
    copies: tuple[int, ...]
    part: Index
    source: Source


@dataclass(frozen=True)
class Loop:
    """A loop over ``first``, ``first + step``, ... below ``stop``, whose ``body`` was traced once.

    ``parts``: Number of blocks that share the iterations of a split loop; 0 for an ordinary loop.
    """

    number: int
    first: Index
    stop: Index
    step: int
    body: tuple[Operation, ...]
    source: Source
    parts: int = 0

    def iterations(self, block: tuple[int, ...], loops: dict[int, int]) -> int:
        """Return how many iterations of this loop one block executes during one iteration of each enclosing loop."""
        return max(0, -(-(self.stop.at(block, loops) - self.first.at(block, loops)) // self.step))

    def most_iterations(self, blocks: tuple[int, ...], around: dict[int, int]) -> int:
        """Return the largest number of iterations in any block."""
        (low, _), (_, high) = self.first.interval(blocks, around), self.stop.interval(blocks, around)
        return max(0, -(-(high - low) // self.step))


@dataclass(frozen=True)
class If:
    """Run ``body`` if ``index`` has the value ``equals``. The condition is the same for all threads of a block."""

    number: int
    index: Index
    equals: int
    body: tuple[Operation, ...]
    source: Source


Operation = (
    LoadTile | StoreTile | AtomicRmw | AtomicFetch | Prefetch | Move | TransposeTile | Reshape | PadTile | Mma | Fill
    | PassedScalar | Coordinates | Map | ReduceTile | Scan | Broadcast | Convert | Read | Set | Loop | If | LoadScalar
    | Uniform | FindTile | FetchPart
)  # fmt: skip
Region = Loop | If
Computing = (
    LoadTile | AtomicFetch | TransposeTile | Reshape | PadTile | Mma | Fill | PassedScalar | Coordinates | Map
    | ReduceTile | Scan | Broadcast | Convert | Read
)  # fmt: skip


def block_format(factor: Value, scale: Value) -> BlockFormat | None:
    """Return the block-scaled format that matches a left operand and its scales, or None if no format does."""
    for row in BLOCK_FORMATS.values():
        if row.element == factor.dtype and factor.shape[1] == scale.shape[1] * row.block_elements:
            return row
    return None


def spelled(operation: Operation) -> str:
    """Return the name that messages use for an operation, such as "load", or "exp" for an element-wise function."""
    if isinstance(operation, Map):
        return operation.function
    return "atomic_rmw" if isinstance(operation, AtomicRmw) else type(operation).__name__.removesuffix("Tile").lower()


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
        case PadTile() if operation.wide is not None:
            return (operation.wide,)
        case ReduceTile(_, _, value) if operation.index is not None:
            return (value, operation.index)
        case TransposeTile() | Reshape() | PadTile() | ReduceTile() | Scan() | Broadcast() | Convert():
            return (operation.value,)
        case Set() | Uniform():
            return (operation.value,)
    return ()
