"""NestedLayout: which subgroup and thread holds which elements of a tile (IREE VectorExt NestedLayoutAttr).

Dimension ``i`` of a tile is cut into five nested levels, outermost first: subgroups, batches, outers, threads,
elements. A coordinate is therefore

    (((subgroup * batch_tile + batch) * outer_tile + outer) * thread_tile + thread) * element_tile + element

with one such line per dimension, where ``subgroup`` and ``thread`` are the *virtual* ids of that dimension,

    virtual[i] = (id // stride[i]) % tile[i]            (0 where stride[i] is 0)

A thread holds ``batch x outer x element`` values, in that order (the distributed order). Where there are more
subgroups or threads than a layout names, the surplus ones wrap modulo and hold copies.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.layouts.attribute_text import AttributeReader, format_fields, integer_tuple

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class NestedLayout:
    """The distribution of a tile of rank r over subgroups and threads; every field holds r integers.

    Tiles count the tiles of the next level, they are not sizes. Laws, checked on construction (ValueError):
    all fields have the same rank; tiles are at least 1; a stride is 0 exactly where its tile is 1; the strides of a
    level do not overlap: sorted upwards, each is a multiple of (stride * tile) of the one before. Gaps are allowed.
    """

    subgroup_tile: tuple[int, ...]
    batch_tile: tuple[int, ...]
    outer_tile: tuple[int, ...]
    thread_tile: tuple[int, ...]
    element_tile: tuple[int, ...]
    subgroup_strides: tuple[int, ...]
    thread_strides: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            minimum = 0 if field.name.endswith("strides") else 1
            values = integer_tuple(field.name, getattr(self, field.name), minimum)
            object.__setattr__(self, field.name, values)
        for field in dataclasses.fields(self):
            if len(getattr(self, field.name)) != self.rank:
                raise ValueError(
                    f"{field.name} has {len(getattr(self, field.name))} entries but subgroup_tile has {self.rank}: "
                    "give every field one entry per dimension of the tile"
                )
        _check_strides("subgroup", self.subgroup_tile, self.subgroup_strides)
        _check_strides("thread", self.thread_tile, self.thread_strides)

    # Shapes

    @property
    def rank(self) -> int:
        return len(self.subgroup_tile)

    @property
    def tiles(self) -> tuple[tuple[int, ...], ...]:
        """The five tiles, outermost level first."""
        return (self.subgroup_tile, self.batch_tile, self.outer_tile, self.thread_tile, self.element_tile)

    @property
    def shape(self) -> tuple[int, ...]:
        """The undistributed shape: the product of the five levels in each dimension."""
        return tuple(math.prod(levels) for levels in zip(*self.tiles, strict=True))

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The undistributed packed shape: subgroup, batch, outer, thread, element, each of rank many dimensions."""
        return tuple(n for tile in self.tiles for n in tile)

    @property
    def distributed_packed_shape(self) -> tuple[int, ...]:
        """What one thread holds: batch, outer, element, each of rank many dimensions."""
        return self.batch_tile + self.outer_tile + self.element_tile

    @property
    def distributed_shape(self) -> tuple[int, ...]:
        """What one thread holds as a tile of the original rank (the 2x16 of the document's 64x64 example)."""
        return tuple(math.prod(held) for held in zip(self.batch_tile, self.outer_tile, self.element_tile, strict=True))

    @property
    def elements_per_thread(self) -> int:
        return math.prod(self.distributed_packed_shape)

    @property
    def subgroups(self) -> int:
        """Subgroup ids the layout tells apart: ids wrap modulo this many (gaps count; 1 when none are distributed)."""
        return _span(self.subgroup_tile, self.subgroup_strides)

    @property
    def threads(self) -> int:
        """Thread ids the layout tells apart within a subgroup (gaps count)."""
        return _span(self.thread_tile, self.thread_strides)

    # Verification

    def verify(
        self,
        shape: Sequence[int] | None = None,
        subgroup_size: int | None = None,
        subgroups: int | None = None,
        replicate_threads: bool = False,
    ) -> None:
        """Raise ValueError unless the layout distributes a tile of ``shape`` over so many subgroups and threads.

        ``subgroup_size`` must equal the product of ``thread_tile``; with ``replicate_threads`` it may be a multiple of
        the ids in use, and the surplus threads hold copies (the layout of a row's scale in a matrix fragment).
        ``subgroups`` may exceed the ids in use: surplus subgroups wrap modulo and hold copies.
        """
        if shape is not None:
            wanted = integer_tuple("shape", shape, 1)
            if len(wanted) != self.rank:
                raise ValueError(f"shape {list(wanted)} has rank {len(wanted)} but the layout has rank {self.rank}")
            for i, (size, levels) in enumerate(zip(wanted, zip(*self.tiles, strict=True), strict=True)):
                if size != math.prod(levels):
                    product = " * ".join(map(str, levels))
                    raise ValueError(
                        f"shape[{i}] is {size} but subgroup * batch * outer * thread * element is "
                        f"{product} = {math.prod(levels)}: the product must equal the shape"
                    )
        if subgroup_size is not None:
            self._verify_threads(subgroup_size, replicate_threads)
        if subgroups is not None and subgroups < self.subgroups:
            raise ValueError(
                f"subgroups is {subgroups} but the layout uses {self.subgroups} subgroup ids: "
                "give as many, or let each hold several tiles with fold_subgroups"
            )

    def _verify_threads(self, subgroup_size: int, replicate: bool) -> None:
        product = math.prod(self.thread_tile)
        if replicate:
            if subgroup_size < self.threads or subgroup_size % self.threads:
                raise ValueError(
                    f"subgroup_size is {subgroup_size} but the layout repeats every {self.threads} threads: "
                    "it must be a multiple"
                )
        elif product != subgroup_size:
            raise ValueError(
                f"thread_tile {list(self.thread_tile)} has {product} threads but subgroup_size is {subgroup_size}: "
                "they must be equal"
            )
        elif self.threads != subgroup_size:
            raise ValueError(
                f"thread_strides {list(self.thread_strides)} leave gaps, so thread ids up to {self.threads - 1} are "
                f"needed but subgroup_size is {subgroup_size}: close the gaps or replicate the threads"
            )

    # Ids

    def virtual_subgroup_ids(self, subgroup_id: npt.ArrayLike) -> IntArray:
        """Virtual ids of subgroups, ``[..., rank]`` for ids ``[...]``; any id >= 0, surplus ones wrap modulo."""
        return _virtual("subgroup_id", subgroup_id, self.subgroup_tile, self.subgroup_strides)

    def virtual_thread_ids(self, thread_id: npt.ArrayLike) -> IntArray:
        """Virtual ids of threads of a subgroup, ``[..., rank]`` for ids ``[...]``."""
        return _virtual("thread_id", thread_id, self.thread_tile, self.thread_strides)

    def virtual_ids(self, thread_of_block: npt.ArrayLike, subgroup_size: int = 32) -> tuple[IntArray, IntArray]:
        """Virtual subgroup and thread ids of threads numbered through the whole workgroup."""
        linear = np.asarray(thread_of_block, dtype=np.int64)
        return self.virtual_subgroup_ids(linear // subgroup_size), self.virtual_thread_ids(linear % subgroup_size)

    def subgroup_ids(self, virtual: npt.ArrayLike, hardware_subgroups: int | None = None) -> IntArray:
        """The inverse: the lowest subgroup id with these virtual ids ``[..., rank]``.

        With fewer ``hardware_subgroups`` than the layout uses, the id wraps modulo them (document example: ids
        0, 4, 1, 5, 2, 6, 3, 7 on 4 subgroups are 0, 0, 1, 1, 2, 2, 3, 3). The count in use must be a multiple of
        ``hardware_subgroups``. The document also takes the sum modulo the product of the tiles; that changes
        nothing without gaps and is wrong with them, so it is left out here.
        """
        ids = _inverse("virtual subgroup id", virtual, self.subgroup_tile, self.subgroup_strides)
        if hardware_subgroups is None or hardware_subgroups >= self.subgroups:
            return ids
        if hardware_subgroups < 1 or self.subgroups % hardware_subgroups:
            raise ValueError(
                f"hardware_subgroups is {hardware_subgroups} but the layout uses {self.subgroups} subgroup ids: "
                "the ids in use must be a multiple of the hardware's"
            )
        return ids % hardware_subgroups

    def thread_ids(self, virtual: npt.ArrayLike) -> IntArray:
        """The inverse: the lowest thread id with these virtual ids ``[..., rank]``."""
        return _inverse("virtual thread id", virtual, self.thread_tile, self.thread_strides)

    # Distribution

    def distribute(
        self,
        array: npt.ArrayLike,
        subgroups: int | None = None,
        subgroup_size: int = 32,
        replicate_threads: bool = False,
    ) -> AnyArray:
        """What every thread holds of ``array``: ``[subgroups, threads, *batch, *outer, *element]``.

        ``subgroups`` defaults to the ids the layout uses. Raises ValueError as ``verify`` does.
        """
        values = np.asarray(array)
        count = self.subgroups if subgroups is None else subgroups
        self.verify(values.shape, subgroup_size, count, replicate_threads)
        slots = self._pack(values)
        return slots[self._slots_of_subgroups(count)[:, None], self._slots_of_threads(subgroup_size)[None, :]]

    def undistribute(self, distributed: npt.ArrayLike, replicate_threads: bool = False) -> AnyArray:
        """The inverse of ``distribute``: the tile. Raises ValueError if two copies of one element differ."""
        held = np.asarray(distributed)
        expected = self.distributed_packed_shape
        if held.ndim < 2 or held.shape[2:] != expected:
            raise ValueError(
                f"the distributed array has shape {list(held.shape)}: give [subgroups, threads, "
                f"{', '.join(map(str, expected))}]"
            )
        self.verify(None, held.shape[1], held.shape[0], replicate_threads)
        subgroup_ids, thread_ids = self._ids_of_slots()
        tile = self._unpack(held[subgroup_ids[:, None], thread_ids[None, :]])
        again = self.distribute(tile, held.shape[0], held.shape[1], replicate_threads)
        same = (again == held) | ((again != again) & (held != held))  # a NaN equals its copy
        if not same.all():
            subgroup, thread = np.argwhere(~same)[0][:2]
            raise ValueError(
                f"subgroup {subgroup} thread {thread} holds a copy that differs from the first holder's: "
                "surplus subgroups and threads must hold equal copies"
            )
        return tile

    def coordinates(
        self, subgroups: int | None = None, subgroup_size: int | None = None, replicate_threads: bool = False
    ) -> IntArray:
        """Tile coordinates of every held element: ``[subgroups, threads, elements, rank]``, elements in distributed
        order. ``subgroup_size`` defaults to the thread ids the layout uses (gaps then hold copies)."""
        size = self.threads if subgroup_size is None else subgroup_size
        linear = self.distribute(
            np.arange(math.prod(self.shape)).reshape(self.shape),
            subgroups,
            size,
            replicate_threads or subgroup_size is None,
        )
        flat = linear.reshape(*linear.shape[:2], self.elements_per_thread)
        if self.rank == 0:
            return np.zeros((*flat.shape, 0), dtype=np.int64)
        return np.stack(np.unravel_index(flat, self.shape), axis=-1).astype(np.int64)

    def indices(self, subgroup: int, thread: int) -> IntArray:
        """Tile coordinates ``[elements, rank]`` of what one thread holds, in distributed order."""
        ids = np.concatenate([self.virtual_subgroup_ids(subgroup), self.virtual_thread_ids(thread)])
        held = np.indices(self.distributed_packed_shape).reshape(3, self.rank, self.elements_per_thread)
        subgroup_id, thread_id = ids[: self.rank, None], ids[self.rank :, None]
        _, batches, outers, threads, elements = (np.array(tile, dtype=np.int64)[:, None] for tile in self.tiles)
        outer = (subgroup_id * batches + held[0]) * outers + held[1]
        coordinates: IntArray = ((outer * threads + thread_id) * elements + held[2]).T.astype(np.int64)
        return coordinates

    def owners(self) -> tuple[IntArray, IntArray, IntArray]:
        """For every element of the tile, three arrays of the tile's shape: the lowest subgroup id and thread id that
        hold it, and its place in that thread's distributed order."""
        subgroup_ids, thread_ids = self._ids_of_slots()
        held = self.distributed_packed_shape
        full = (len(subgroup_ids), len(thread_ids), *held)
        ones = (1,) * len(held)
        places = np.arange(self.elements_per_thread).reshape(held)
        return (
            self._unpack(np.broadcast_to(subgroup_ids.reshape(-1, 1, *ones), full)),
            self._unpack(np.broadcast_to(thread_ids.reshape(1, -1, *ones), full)),
            self._unpack(np.broadcast_to(places, full)),
        )

    # Comparing layouts

    def same_distribution(self, other: NestedLayout) -> bool:
        """Whether every thread of every subgroup holds the same elements in the same places (fields may differ)."""
        return self._compare(other, ordered=True)

    def same_owners(self, other: NestedLayout) -> bool:
        """Whether every thread holds the same set of elements, in whatever order: then converting one layout into
        the other renames registers and moves nothing between threads."""
        return self._compare(other, ordered=False)

    def needs_shared_memory(self, target: NestedLayout) -> bool:
        """IREE's rule for converting this layout into ``target``: shared memory is needed if anything besides batch
        and outer differs. It errs on the safe side; ``same_owners`` is exact, and implies nothing moves."""
        return any(
            getattr(self, field.name) != getattr(target, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("batch_tile", "outer_tile")
        )

    # Deriving layouts

    def append(
        self,
        subgroup_tile: Iterable[int],
        batch_tile: Iterable[int],
        outer_tile: Iterable[int],
        thread_tile: Iterable[int],
        element_tile: Iterable[int],
        subgroup_strides: Iterable[int],
        thread_strides: Iterable[int],
    ) -> Self:
        """The document's second builder: this layout with new leading dimensions, their levels given field by field."""
        return type(self)(
            (*subgroup_tile, *self.subgroup_tile),
            (*batch_tile, *self.batch_tile),
            (*outer_tile, *self.outer_tile),
            (*thread_tile, *self.thread_tile),
            (*element_tile, *self.element_tile),
            (*subgroup_strides, *self.subgroup_strides),
            (*thread_strides, *self.thread_strides),
        )

    def select(self, dimensions: Sequence[int]) -> Self:
        """The layout of an operand indexed by these dimensions of this one, in this order: a transpose when all are
        named, a projection (a reduced or broadcast operand) when some are dropped. A projected layout repeats over
        the threads and subgroups of the dropped dimensions."""
        chosen = integer_tuple("dimensions", dimensions, 0)
        if len(set(chosen)) != len(chosen) or any(d >= self.rank for d in chosen):
            raise ValueError(f"dimensions {list(chosen)} must be distinct and below the rank {self.rank}")
        return type(self)(*(tuple(getattr(self, f.name)[d] for d in chosen) for f in dataclasses.fields(self)))

    def fold_subgroups(self, hardware_subgroups: int) -> Self:
        """The same distribution on fewer subgroups: id x becomes x mod ``hardware_subgroups``, and each subgroup holds
        its several tiles as batches. Raises ValueError where a dimension would be split by the fold."""
        count = hardware_subgroups
        if count < 1 or self.subgroups % count:
            raise ValueError(
                f"hardware_subgroups is {count} but the layout uses {self.subgroups} subgroup ids: "
                "the ids in use must be a multiple of the hardware's"
            )
        tiles, batches, strides = list(self.subgroup_tile), list(self.batch_tile), list(self.subgroup_strides)
        for i, (tile, stride) in enumerate(zip(self.subgroup_tile, self.subgroup_strides, strict=True)):
            if stride and stride % count == 0:
                tiles[i], batches[i], strides[i] = 1, tile * batches[i], 0
            elif tile > 1 and count % (stride * tile):  # then ids that are count apart differ in this dimension
                raise ValueError(
                    f"subgroup_tile[{i}] is {tile} with stride {stride}: {count} subgroups would hold every other part "
                    "of this dimension, which batches cannot say; order the strides so that whole dimensions fold"
                )
        return dataclasses.replace(
            self, subgroup_tile=tuple(tiles), batch_tile=tuple(batches), subgroup_strides=tuple(strides)
        )

    # Text

    def __str__(self) -> str:
        return f"NestedLayout<{self._fields_text()}>"

    def dialect_text(self) -> str:
        """The attribute as MLIR prints it."""
        return f"#iree_vector_ext.nested_layout<{self._fields_text()}>"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NestedLayout<...>``, ``NestedLayout : <...>`` or ``#iree_vector_ext.nested_layout<...>``. Raises
        AttributeSyntaxError with the position, or ValueError where the fields are no layout."""
        reader = AttributeReader(text)
        if reader.expect("NestedLayout", "#iree_vector_ext.nested_layout") == "NestedLayout":
            reader.accept(":")
        reader.expect("<")
        fields = reader.integer_fields([field.name for field in dataclasses.fields(cls)], ">")
        reader.end()
        return cls(**fields)

    def _fields_text(self) -> str:
        return format_fields({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    # The packed view: [subgroup slot, thread slot, *batch, *outer, *element]; a slot is the row-major virtual id.

    def _pack(self, array: AnyArray) -> AnyArray:
        nested = array.reshape([level for levels in zip(*self.tiles, strict=True) for level in levels])
        order = [dimension * 5 + level for level in (0, 3, 1, 2, 4) for dimension in range(self.rank)]
        slots = (math.prod(self.subgroup_tile), math.prod(self.thread_tile))
        return nested.transpose(order).reshape(*slots, *self.distributed_packed_shape)

    def _unpack(self, slots: AnyArray) -> AnyArray:
        levels = slots.reshape(self.subgroup_tile + self.thread_tile + self.distributed_packed_shape)
        order = [level * self.rank + dimension for dimension in range(self.rank) for level in (0, 2, 3, 1, 4)]
        return levels.transpose(order).reshape(self.shape)

    def _slots_of_subgroups(self, count: int) -> IntArray:
        return _ravel(self.virtual_subgroup_ids(np.arange(count)), self.subgroup_tile)

    def _slots_of_threads(self, count: int) -> IntArray:
        return _ravel(self.virtual_thread_ids(np.arange(count)), self.thread_tile)

    def _ids_of_slots(self) -> tuple[IntArray, IntArray]:
        def virtual(tile: tuple[int, ...]) -> IntArray:
            return np.indices(tile).reshape(len(tile), math.prod(tile)).T.astype(np.int64)

        return self.subgroup_ids(virtual(self.subgroup_tile)), self.thread_ids(virtual(self.thread_tile))

    def _compare(self, other: NestedLayout, ordered: bool) -> bool:
        if self.shape != other.shape or self.elements_per_thread != other.elements_per_thread:
            return False
        # Ids of both wrap modulo the least common multiple of their spans.
        subgroups = math.lcm(self.subgroups, other.subgroups)
        threads = math.lcm(self.threads, other.threads)
        linear = np.arange(math.prod(self.shape)).reshape(self.shape)
        mine, theirs = (
            layout.distribute(linear, subgroups, threads, replicate_threads=True).reshape(subgroups, threads, -1)
            for layout in (self, other)
        )
        if not ordered:
            mine, theirs = np.sort(mine, axis=-1), np.sort(theirs, axis=-1)
        return bool(np.array_equal(mine, theirs))


def _check_strides(level: str, tile: tuple[int, ...], strides: tuple[int, ...]) -> None:
    for i, (size, stride) in enumerate(zip(tile, strides, strict=True)):
        if size == 1 and stride != 0:
            raise ValueError(
                f"{level}_strides[{i}] is {stride} but {level}_tile[{i}] is 1: "
                "a dimension that is not distributed has stride 0"
            )
        if size > 1 and stride == 0:
            raise ValueError(
                f"{level}_strides[{i}] is 0 but {level}_tile[{i}] is {size}: stride 0 means not distributed, "
                f"so only one of the {size} tiles would have a holder"
            )
    taken, last = 1, ""
    for stride, i in sorted((stride, i) for i, stride in enumerate(strides) if stride):
        if stride % taken:
            raise ValueError(
                f"{level}_strides[{i}] is {stride}, not a multiple of {taken} (stride * tile of {last}): "
                f"the {level}s of two dimensions would overlap"
            )
        taken, last = stride * tile[i], f"dimension {i}"


def _span(tile: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return max((size * stride for size, stride in zip(tile, strides, strict=True)), default=1) or 1


def _virtual(name: str, ids: npt.ArrayLike, tile: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    linear = np.asarray(ids, dtype=np.int64)
    if (linear < 0).any():
        raise ValueError(f"{name} is {int(linear.min())}: ids start at 0")
    # A stride of 0 comes with a tile of 1, and anything modulo 1 is 0.
    divisors = np.maximum(np.array(strides, dtype=np.int64), 1)
    return (linear[..., None] // divisors) % np.array(tile, dtype=np.int64)


def _inverse(name: str, virtual: npt.ArrayLike, tile: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    ids = np.asarray(virtual, dtype=np.int64)
    if ids.ndim == 0 or ids.shape[-1] != len(tile):
        raise ValueError(f"{name}s have shape {list(ids.shape)}: the last axis must have the rank {len(tile)}")
    if (ids < 0).any() or (ids >= np.array(tile, dtype=np.int64)).any():
        raise ValueError(f"a {name} lies outside the tile {list(tile)}")
    linear: IntArray = (ids * np.array(strides, dtype=np.int64)).sum(axis=-1, dtype=np.int64)
    return linear


def _ravel(virtual: IntArray, tile: tuple[int, ...]) -> IntArray:
    weights = np.array([math.prod(tile[i + 1 :]) for i in range(len(tile))], dtype=np.int64)
    linear: IntArray = (virtual * weights).sum(axis=-1, dtype=np.int64)
    return linear
