"""NestedLayout: distribution of a tile's elements over subgroups and threads (IREE VectorExt NestedLayoutAttr).

Dimension ``i`` of a tile is split into five nested levels, outermost first: subgroups, batches, outers, threads,
elements. A coordinate is therefore

    (((subgroup * batch_tile + batch) * outer_tile + outer) * thread_tile + thread) * element_tile + element

in each dimension, where ``subgroup`` and ``thread`` are the *virtual* ids of that dimension:

    virtual[i] = (id // stride[i]) % tile[i]            (0 where stride[i] is 0)

A thread holds ``batch x outer x element`` values, in that order (the distributed order). If there are more subgroups or
threads than a layout uses, ids wrap around, and the surplus subgroups or threads hold copies. If there are fewer
subgroups, subgroup s does the work of the ids s, s + count, s + 2 * count, ..., one in each *round*.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.layouts.text import TextReader, format_fields, integer_tuple, parse_attribute

AnyArray = npt.NDArray[Any]

_MOST_IDS = 2**16  # largest number of ids of a level that are checked one by one; a workgroup has at most 2^10 threads


@dataclass(frozen=True)
class NestedLayout:
    """Distribution of a tile over subgroups and threads. Every field has one integer per dimension of the tile.

    A tile field is a number of tiles of the next level, not a size in elements. The id of a subgroup or thread is
    sum(stride * virtual id) over the dimensions. Ids may have gaps. Raises ValueError unless all of these conditions
    hold:

    - All fields have the same length.
    - Tiles are at least 1.
    - A dimension with a stride of 0 has a tile of 1.
    - Different virtual ids have different ids.
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
        """Number of dimensions of the tile."""
        return len(self.subgroup_tile)

    @property
    def tiles(self) -> tuple[tuple[int, ...], ...]:
        """The five tiles, outermost level first."""
        return (self.subgroup_tile, self.batch_tile, self.outer_tile, self.thread_tile, self.element_tile)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tile: the product of the five levels in each dimension."""
        return tuple(math.prod(levels) for levels in zip(*self.tiles, strict=True))

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The five tiles in one tuple, ``rank`` numbers each (IREE's ``getUndistributedPackedShape``)."""
        return tuple(size for tile in self.tiles for size in tile)

    @property
    def distributed_packed_shape(self) -> tuple[int, ...]:
        """Shape of one thread's elements: the batch, outer and element tiles in one tuple, ``rank`` numbers each."""
        return self.batch_tile + self.outer_tile + self.element_tile

    @property
    def distributed_shape(self) -> tuple[int, ...]:
        """Shape of one thread's elements as a tile with ``rank`` dimensions (2x16 in IREE's 64x64 example)."""
        return tuple(
            math.prod(tiles) for tiles in zip(self.batch_tile, self.outer_tile, self.element_tile, strict=True)
        )

    @property
    def elements_per_thread(self) -> int:
        """Number of elements that a thread holds."""
        return math.prod(self.distributed_packed_shape)

    @property
    def subgroups(self) -> int:
        """Number of subgroup ids after which the distribution repeats; 1 if nothing is distributed over subgroups."""
        return _span(self.subgroup_tile, self.subgroup_strides)

    @property
    def threads(self) -> int:
        """Number of thread ids of a subgroup after which the distribution repeats."""
        return _span(self.thread_tile, self.thread_strides)

    # Verification

    def verify(
        self,
        shape: Sequence[int] | None = None,
        subgroup_size: int | None = None,
        subgroups: int | None = None,
        replicate_threads: bool = False,
    ) -> None:
        """Raise ValueError unless the layout distributes a tile over these subgroups and threads.

        Args:
            shape: Shape of the tile; None to skip the check.
            subgroup_size: Threads per subgroup; None to skip the check. If ``replicate_threads`` is False, this number
                must equal the product of ``thread_tile``, and thread ids must have no gaps.
            subgroups: Number of subgroups; None to skip the check. If there are fewer subgroups than the layout uses,
                each does the work of several ids, as in ``rounds``. Surplus subgroups are allowed.
            replicate_threads: If True, ``subgroup_size`` may be any multiple of ``threads``. Surplus threads then hold
                copies. For example, several threads hold the scale of a row of a matrix fragment.

        Raises:
            ValueError: The layout does not fit.
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
        if subgroups is not None:
            self.rounds(subgroups)

    def rounds(self, subgroups: int) -> int:
        """Return the number of the layout's subgroup ids that each of ``subgroups`` subgroups handles.

        The result is 1 if there are enough subgroups. Otherwise a subgroup does the work of all ids that equal its own
        id modulo ``subgroups``.

        Raises:
            ValueError: The ids do not wrap evenly.
        """
        last = sum((n - 1) * stride for n, stride in zip(self.subgroup_tile, self.subgroup_strides, strict=True))
        if subgroups > last:
            return 1
        if subgroups < 1 or self.subgroups % subgroups:
            raise ValueError(
                f"{subgroups} subgroups cannot share the {self.subgroups} subgroup ids of the layout: the "
                "number of ids must be a multiple of the number of subgroups"
            )
        return self.subgroups // subgroups

    def _verify_threads(self, subgroup_size: int, replicate: bool) -> None:
        product = math.prod(self.thread_tile)
        if replicate:
            if subgroup_size < self.threads or subgroup_size % self.threads:
                raise ValueError(
                    f"subgroup_size is {subgroup_size} but the layout repeats every {self.threads} "
                    "threads: subgroup_size must be a multiple of this number"
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
        """Return the virtual ids of subgroups, ``[..., rank]`` for ids ``[...]``.

        Ids are at least 0, and surplus ids wrap.
        """
        return _virtual("subgroup_id", subgroup_id, self.subgroup_tile, self.subgroup_strides)

    def virtual_thread_ids(self, thread_id: npt.ArrayLike) -> IntArray:
        """Return the virtual ids of threads of a subgroup, ``[..., rank]`` for ids ``[...]``."""
        return _virtual("thread_id", thread_id, self.thread_tile, self.thread_strides)

    def virtual_ids(self, thread_of_workgroup: npt.ArrayLike, subgroup_size: int = 32) -> tuple[IntArray, IntArray]:
        """Return the virtual subgroup and thread ids of threads of a workgroup (IREE's ``computeThreadIds``)."""
        linear = np.asarray(thread_of_workgroup, dtype=np.int64)
        return self.virtual_subgroup_ids(linear // subgroup_size), self.virtual_thread_ids(linear % subgroup_size)

    def subgroup_ids(self, virtual: npt.ArrayLike, hardware_subgroups: int | None = None) -> IntArray:
        """Return the lowest subgroup id with these virtual ids ``[..., rank]`` (inverse of ``virtual_subgroup_ids``).

        If there are fewer ``hardware_subgroups`` than the layout uses, the id wraps modulo their number. In the example
        of IREE's documentation, ids 0, 4, 1, 5, 2, 6, 3, 7 on 4 subgroups become 0, 0, 1, 1, 2, 2, 3, 3.

        The formula in the documentation also reduces an id modulo the product of the tile sizes. This function omits
        that step, because it has no effect if the ids have no gaps, and gives wrong ids if they have gaps.

        Raises:
            ValueError: A virtual id is invalid, or the ids do not wrap evenly (see ``rounds``).
        """
        ids = _inverse("virtual subgroup id", virtual, self.subgroup_tile, self.subgroup_strides)
        return ids if hardware_subgroups is None or self.rounds(hardware_subgroups) == 1 else ids % hardware_subgroups

    def thread_ids(self, virtual: npt.ArrayLike) -> IntArray:
        """Return the lowest thread id with these virtual ids ``[..., rank]`` (inverse of ``virtual_thread_ids``)."""
        return _inverse("virtual thread id", virtual, self.thread_tile, self.thread_strides)

    # Distribution

    def distribute(
        self,
        array: npt.ArrayLike,
        subgroups: int | None = None,
        subgroup_size: int = 32,
        replicate_threads: bool = False,
    ) -> AnyArray:
        """Return the elements of an array that each thread holds.

        Args:
            array: Array with the shape of the layout.
            subgroups: Number of subgroups; None for the number of ids that the layout uses.
            subgroup_size: Number of threads of a subgroup.
            replicate_threads: True if surplus threads hold copies.

        Returns:
            Array with the axes ``[subgroups, threads, *batch, *outer, *element]``. If subgroups work in several rounds,
            the axes are ``[subgroups, threads, rounds, *batch, *outer, *element]``.

        Raises:
            ValueError: As for ``verify``.
        """
        values = np.asarray(array)
        count = self.subgroups if subgroups is None else subgroups
        self.verify(values.shape, subgroup_size, count, replicate_threads)
        rounds = self.rounds(count)
        ids = np.arange(rounds * count).reshape(rounds, count).T
        subgroup = _ravel(self.virtual_subgroup_ids(ids), self.subgroup_tile)[:, None, :]
        thread = _ravel(self.virtual_thread_ids(np.arange(subgroup_size)), self.thread_tile)[None, :, None]
        distributed: AnyArray = self._pack(values)[subgroup, thread]
        return distributed if rounds > 1 else distributed[:, :, 0]

    def undistribute(self, distributed: npt.ArrayLike, replicate_threads: bool = False) -> AnyArray:
        """Return the tile from the result of ``distribute``. Raises ValueError if two copies of an element differ."""
        array = np.asarray(distributed)
        count, threads = array.shape[:2] if array.ndim >= 2 else (1, 1)
        self.verify(None, threads, count, replicate_threads)
        rounds = self.rounds(count)
        expected = (() if rounds == 1 else (rounds,)) + self.distributed_packed_shape
        if array.ndim < 2 or array.shape[2:] != expected:
            raise ValueError(
                f"the distributed array has shape {list(array.shape)}: give [subgroups, threads, "
                f"{', '.join(map(str, expected))}]"
            )
        subgroup, thread = self._ids_of_slots()
        by_round = array.reshape(count, threads, rounds, *self.distributed_packed_shape)
        round_ = (subgroup // count if rounds > 1 else 0 * subgroup)[:, None]
        tile = self._unpack(by_round[subgroup[:, None] % count, thread[None, :], round_])
        again = self.distribute(tile, count, threads, replicate_threads)
        differs = (again != array) & ((again == again) | (array == array))  # a NaN counts as equal to its copy
        if differs.any():
            at = np.argwhere(differs)[0]
            raise ValueError(
                f"subgroup {at[0]} thread {at[1]} holds a copy that differs from the first holder's: "
                "surplus subgroups and threads must hold equal copies"
            )
        return tile

    def coordinates(
        self, subgroups: int | None = None, subgroup_size: int | None = None, replicate_threads: bool = False
    ) -> IntArray:
        """Return the tile coordinates of each thread's elements: ``[subgroups, threads, elements, rank]``.

        Elements are in distributed order. ``subgroup_size`` defaults to the number of thread ids of the layout. If the
        layout skips some thread ids, threads with these ids hold copies.
        """
        replicate = replicate_threads or subgroup_size is None
        numbers = self.numbers(subgroups, self.threads if subgroup_size is None else subgroup_size, replicate)
        if self.rank == 0:
            return np.zeros((*numbers.shape, 0), dtype=np.int64)
        return np.stack(np.unravel_index(numbers, self.shape), axis=-1).astype(np.int64)

    def numbers(
        self, subgroups: int | None = None, subgroup_size: int = 32, replicate_threads: bool = False
    ) -> IntArray:
        """Return the row-major tile index of each element that a thread holds: ``[subgroups, threads, elements]``."""
        tile = np.arange(math.prod(self.shape)).reshape(self.shape)
        distributed = self.distribute(tile, subgroups, subgroup_size, replicate_threads)
        return distributed.reshape(*distributed.shape[:2], -1)

    def indices(self, subgroup: int, thread: int) -> IntArray:
        """Return the tile coordinates ``[elements, rank]`` of one thread's elements, in distributed order."""
        ids = np.concatenate([self.virtual_subgroup_ids(subgroup), self.virtual_thread_ids(thread)])
        indices = np.indices(self.distributed_packed_shape).reshape(3, self.rank, self.elements_per_thread)
        subgroup_id, thread_id = ids[: self.rank, None], ids[self.rank :, None]
        _, batches, outers, threads, elements = (np.array(tile, dtype=np.int64)[:, None] for tile in self.tiles)
        outer = (subgroup_id * batches + indices[0]) * outers + indices[1]
        coordinates: IntArray = ((outer * threads + thread_id) * elements + indices[2]).T.astype(np.int64)
        return coordinates

    def owners(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the thread that holds each element of the tile.

        Returns:
            Three arrays with the shape of the tile: the lowest subgroup id and thread id that hold an element, and the
            element's index in that thread's distributed order.
        """
        subgroup_ids, thread_ids = self._ids_of_slots()
        shape = self.distributed_packed_shape
        full = (len(subgroup_ids), len(thread_ids), *shape)
        ones = (1,) * len(shape)
        positions = np.arange(self.elements_per_thread).reshape(shape)
        return (
            self._unpack(np.broadcast_to(subgroup_ids.reshape(-1, 1, *ones), full)),
            self._unpack(np.broadcast_to(thread_ids.reshape(1, -1, *ones), full)),
            self._unpack(np.broadcast_to(positions, full)),
        )

    # Comparing layouts

    def same_owners(self, other: NestedLayout) -> bool:
        """Return True if every thread holds the same set of elements in both layouts, in any order.

        A conversion between such layouts only renames registers.
        """
        # After these numbers of subgroups and threads, both layouts repeat.
        ids = math.lcm(self.subgroups, other.subgroups), math.lcm(self.threads, other.threads)
        mine, theirs = (np.sort(layout.numbers(*ids, replicate_threads=True), axis=-1) for layout in (self, other))
        return self.shape == other.shape and np.array_equal(mine, theirs)

    def needs_shared_memory(self, target: NestedLayout) -> bool:
        """Return True if IREE's rule uses shared memory to convert this layout into ``target``.

        The rule uses shared memory if any field except ``batch_tile`` and ``outer_tile`` differs. The rule is
        conservative, whereas ``same_owners`` is exact.
        """
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
        """Return this layout with additional leading dimensions, like the second builder in IREE's documentation.

        Args:
            subgroup_tile: Subgroups along each new dimension.
            batch_tile: Batches along each new dimension.
            outer_tile: Outer tiles along each new dimension.
            thread_tile: Threads along each new dimension.
            element_tile: Adjacent elements of a thread along each new dimension.
            subgroup_strides: Strides of the subgroup id along each new dimension.
            thread_strides: Strides of the thread id along each new dimension.

        Raises:
            ValueError: The arguments differ in length, or the layout is invalid.
        """
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
        """Return the layout of an operand that is indexed by these dimensions of this layout, in this order.

        If all dimensions are selected, the result is a transpose. Otherwise, the result is a projection, for a reduced
        or broadcast operand: the layout repeats over the threads and subgroups of the dimensions that are not selected.
        """
        chosen = integer_tuple("dimensions", dimensions, 0)
        if len(set(chosen)) != len(chosen) or any(d >= self.rank for d in chosen):
            raise ValueError(f"dimensions {list(chosen)} must be distinct and below the rank {self.rank}")
        return type(self)(*(tuple(getattr(self, f.name)[d] for d in chosen) for f in dataclasses.fields(self)))

    def fold_subgroups(self, hardware_subgroups: int) -> Self:
        """Return the same distribution on fewer subgroups, in which rounds become batches.

        Id x becomes x mod ``hardware_subgroups``. A dimension that is distributed over several rounds is split into two
        dimensions, of which the first counts the rounds. So the returned layout distributes
        ``tile.reshape(folded.shape)``.

        Raises:
            ValueError: The ids do not wrap evenly, or a round does not divide a dimension evenly. ``distribute`` also
                supports the second case.
        """
        if self.rounds(hardware_subgroups) == 1:
            return self
        levels = [list(level) for level in zip(*dataclasses.astuple(self), strict=True)]
        folded: list[list[int]] = []
        for i, (tile, batch, *within, stride, thread_stride) in enumerate(levels):
            period = hardware_subgroups // math.gcd(hardware_subgroups, stride)
            if tile == 1 or hardware_subgroups % (stride * tile) == 0:
                folded.append(levels[i])
            elif stride % hardware_subgroups == 0:
                # Ids along this dimension are equal modulo hardware_subgroups, so one subgroup holds all of them.
                folded.append([1, tile * batch, *within, 0, thread_stride])
            elif hardware_subgroups % stride == 0 and tile % period == 0:
                folded.append([1, tile // period, 1, 1, 1, 0, 0])
                folded.append([period, batch, *within, stride, thread_stride])
            else:
                raise ValueError(
                    f"subgroup_tile[{i}] is {tile} with stride {stride}: with {hardware_subgroups} subgroups, "
                    "the tiles of a subgroup along this dimension do not form batches: use distribute, or other strides"
                )
        return type(self)(*(tuple(level) for level in zip(*folded, strict=True)))

    # Text

    def __str__(self) -> str:
        return f"NestedLayout<{self._fields_text()}>"

    def dialect_text(self) -> str:
        """Return the text of the attribute as MLIR prints it."""
        return f"#iree_vector_ext.nested_layout<{self._fields_text()}>"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NestedLayout<...>``, ``NestedLayout : <...>`` or ``#iree_vector_ext.nested_layout<...>``.

        Raises LayoutSyntaxError with the position, or ValueError if the fields are not a valid layout.
        """
        return parse_attribute(text, cls._read)

    @classmethod
    def _read(cls, reader: TextReader) -> Self:
        if reader.expect("NestedLayout", "#iree_vector_ext.nested_layout") == "NestedLayout":
            reader.accept(":")
        reader.expect("<")
        return cls(**reader.fields({field.name: reader.integers for field in dataclasses.fields(cls)}, ">"))

    def _fields_text(self) -> str:
        return format_fields({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    # The packed view has the axes [subgroup slot, thread slot, *batch, *outer, *element]. A slot is the row-major index
    # of the virtual ids, which are the ids per dimension.

    def _pack(self, array: AnyArray) -> AnyArray:
        nested = array.reshape([level for levels in zip(*self.tiles, strict=True) for level in levels])
        order = [dimension * 5 + level for level in (0, 3, 1, 2, 4) for dimension in range(self.rank)]
        slots = (math.prod(self.subgroup_tile), math.prod(self.thread_tile))
        return nested.transpose(order).reshape(*slots, *self.distributed_packed_shape)

    def _unpack(self, slots: AnyArray) -> AnyArray:
        levels = slots.reshape(self.subgroup_tile + self.thread_tile + self.distributed_packed_shape)
        order = [level * self.rank + dimension for dimension in range(self.rank) for level in (0, 2, 3, 1, 4)]
        return levels.transpose(order).reshape(self.shape)

    def _ids_of_slots(self) -> tuple[IntArray, IntArray]:
        return self.subgroup_ids(_all_virtual(self.subgroup_tile)), self.thread_ids(_all_virtual(self.thread_tile))


def _check_strides(level: str, tile: tuple[int, ...], strides: tuple[int, ...]) -> None:
    spread = sorted((stride, n, i) for i, (stride, n) in enumerate(zip(strides, tile, strict=True)) if n > 1)
    if spread and spread[0][0] == 0:
        _, n, i = spread[0]
        raise ValueError(
            f"{level}_strides[{i}] is 0 but {level}_tile[{i}] is {n}: stride 0 means that the dimension is "
            "not distributed, so the tile must be 1"
        )
    if all(stride % (below * n) == 0 for (below, n, _), (stride, _, _) in itertools.pairwise(spread)):
        # Dimensions are sorted by stride. Each stride is a multiple of stride * tile of the previous dimension, so
        # virtual ids are mixed-radix digits of the id, and no ids overlap.
        return
    if math.prod(tile) > _MOST_IDS:
        raise ValueError(
            f"{level}_tile {list(tile)} has over {_MOST_IDS} ids: make each stride a multiple of stride * "
            "tile of the next smaller one"
        )
    virtual = _all_virtual(tile)
    again = _virtual(level, _inverse(level, virtual, tile, strides), tile, strides)
    wrong = np.argwhere(again != virtual)
    if wrong.size:
        v = wrong[0][0]
        raise ValueError(
            f"{level}_strides {list(strides)} with {level}_tile {list(tile)}: the {level} ids of two "
            f"dimensions overlap: virtual ids {virtual[v].tolist()} and {again[v].tolist()} have the same id"
        )


def _span(tile: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return math.lcm(*(n * stride for n, stride in zip(tile, strides, strict=True) if n > 1))


def _all_virtual(tile: tuple[int, ...]) -> IntArray:
    """Return all virtual ids of a tile in row-major order, ``[product of tile, rank]``."""
    return np.indices(tile).reshape(len(tile), math.prod(tile)).T.astype(np.int64)


def _virtual(name: str, ids: npt.ArrayLike, tile: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    linear = np.asarray(ids, dtype=np.int64)
    if (linear < 0).any():
        raise ValueError(f"{name} is {int(linear.min())}: ids start at 0")
    # A stride of 0 is replaced by 1. The tile of such a dimension is 1, so the virtual id is 0.
    divisors = np.maximum(np.array(strides, dtype=np.int64), 1)
    return (linear[..., None] // divisors) % np.array(tile, dtype=np.int64)


def _inverse(name: str, virtual: npt.ArrayLike, tile: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    ids = np.asarray(virtual, dtype=np.int64)
    if ids.ndim == 0 or ids.shape[-1] != len(tile):
        raise ValueError(f"{name}s have shape {list(ids.shape)}: the last axis must have length {len(tile)}")
    if (ids < 0).any() or (ids >= np.array(tile, dtype=np.int64)).any():
        raise ValueError(f"a {name} is outside of the tile {list(tile)}")
    linear: IntArray = (ids * np.array(strides, dtype=np.int64)).sum(axis=-1, dtype=np.int64)
    return linear


def _ravel(virtual: IntArray, tile: tuple[int, ...]) -> IntArray:
    weights = np.array([math.prod(tile[i + 1 :]) for i in range(len(tile))], dtype=np.int64)
    linear: IntArray = (virtual * weights).sum(axis=-1, dtype=np.int64)
    return linear
