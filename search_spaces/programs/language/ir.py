"""A traced tile program: its operations for the sizes of one problem and one choice of tile sizes.

The module also exports the classes of which a trace consists: arrays and values (``arrays.py``) and operations
(``operations.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from search_spaces.programs.language.arrays import (
    Array,
    MisusedArray,
    ProgramError,
    Shape,
    Source,
    UserMap,
    Value,
    Window,
    line_dimension,
)
from search_spaces.programs.language.index import MOST_SIZE, Index
from search_spaces.programs.language.operations import (
    AtomicFetch,
    AtomicRmw,
    Broadcast,
    Computing,
    Convert,
    Coordinates,
    FetchPart,
    Fill,
    FindTile,
    If,
    LoadScalar,
    LoadTile,
    Loop,
    Map,
    Mma,
    Move,
    Operation,
    PadTile,
    PassedScalar,
    Prefetch,
    Read,
    ReduceTile,
    Region,
    Reshape,
    Scan,
    Set,
    StoreTile,
    TransposeTile,
    Uniform,
    block_format,
    inputs,
    spelled,
)

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
    "FindTile",
    "If",
    "LoadScalar",
    "LoadTile",
    "Loop",
    "Map",
    "MisusedArray",
    "Mma",
    "Move",
    "Operation",
    "PadTile",
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
    "UserMap",
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
class Trace:
    """A program traced for one problem and one choice of tile sizes. Blocks divide ``extent`` into tiles of ``tile``.

    ``written`` has the operations as they were before the depths of products were padded. It is empty if no product was
    padded.
    """

    name: str
    arrays: tuple[Array, ...]
    extent: tuple[int, ...]
    tile: tuple[int, ...]
    operations: tuple[Operation, ...]
    chosen: tuple[tuple[str, int], ...]
    dynamic: tuple[Index | None, ...] = ()  # dynamic extents, by grid axis
    location: str = ""  # file and line of the program, for messages
    written: tuple[Operation, ...] = field(default=(), compare=False)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Number of blocks along each axis of the grid."""
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
        """True if each launch passes a size or stride of some array."""
        return any(array.dynamic is not None or array.pitch is not None for array in self.arrays)

    @property
    def block_count(self) -> int:
        """Number of blocks of the grid."""
        return math.prod(self.blocks)

    @cached_property
    def mapped(self) -> bool:
        """True if the user has specified the distribution of at least one value."""
        return any(
            o.result.map is not None
            for o, _ in self.walk()
            if not isinstance(
                o,
                StoreTile | AtomicRmw | Prefetch | Move | Set | Loop | If | LoadScalar | Uniform | FindTile | FetchPart,
            )
        )

    @cached_property
    def shared(self) -> tuple[Array, ...]:
        """Tiles that the program declares in shared memory (``p.shared``), in the order of their first use."""
        windows = [o.window for o, _ in self.walk() if isinstance(o, LoadTile | StoreTile)]
        return tuple(dict.fromkeys(w.array for w in windows if w.array.role == "shared"))

    def walk(self) -> Iterator[tuple[Operation, tuple[Region, ...]]]:
        """Yield every operation with the loops and conditions that contain it."""
        yield from _walk(self.operations, ())

    @cached_property
    def packed(self) -> tuple[Array, ...]:
        """Arrays that are packed in memory in another order than row-major."""
        windows = (o.window for o, _ in self.walk() if isinstance(o, LoadTile))
        return tuple(dict.fromkeys(w.array for w in windows if w.array.order is not None))

    def iterations(self) -> dict[int, int]:
        """Return the largest number of iterations of each loop, by the loop's id."""
        return dict(self._iterations)

    @cached_property
    def _iterations(self) -> dict[int, int]:
        iterations: dict[int, int] = {}
        for operation, _ in self.walk():
            if isinstance(operation, Loop):
                iterations[operation.number] = operation.most_iterations(self.most_blocks, iterations)
        return iterations


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
    """Return the operations, with atomics changed so that they fetch old values only if an operation uses these."""
    used = {value.id for operation in walk_body(operations) for value in inputs(operation)}

    def rebuilt(body: tuple[Operation, ...]) -> tuple[Operation, ...]:
        rebuilt_operations = list[Operation]()
        for o in body:
            if isinstance(o, Loop | If):
                rebuilt_operations.append(replace(o, body=rebuilt(o.body)))
            elif isinstance(o, AtomicFetch) and o.result.id not in used:
                rebuilt_operations.append(AtomicRmw(o.kind, o.value, o.window, o.source))
            else:
                rebuilt_operations.append(o)
        return tuple(rebuilt_operations)

    return rebuilt(operations)
