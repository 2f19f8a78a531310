"""Execute layout operations on numpy arrays: to_simt, to_simd and to_layout (IREE VectorExt dialect).

A *distributed* array is ``[subgroups, threads, *batch, *outer, *element]``: the registers of every thread. These
operations execute a schedule's data movement in plain Python, for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.layouts.nested_layout import NestedLayout

AnyArray = npt.NDArray[Any]
SharedFunction = Callable[..., Any]  # (row, col, ...) index arrays of a tile -> element offsets into shared memory


class Exchange(Enum):
    """The widest scope in which elements move in a conversion, smallest first."""

    NONE = "none"  # every register keeps its element
    REGISTERS = "registers"  # elements move between registers of a thread
    SUBGROUP = "subgroup"  # between the threads of a subgroup (shuffles can do it)
    WORKGROUP = "workgroup"  # between subgroups: through shared memory


@dataclass(frozen=True)
class Converted:
    """A distributed array in its new layout, and the scope and memory of the conversion.

    ``shared_elements`` is the number of elements of shared memory that it used (0 for registers only).
    """

    values: AnyArray
    exchange: Exchange
    shared_elements: int


def to_simt(
    tile: npt.ArrayLike,
    layout: NestedLayout,
    subgroups: int | None = None,
    subgroup_size: int = 32,
    replicate_threads: bool = False,
) -> AnyArray:
    """Distribute a whole tile over threads, like ``NestedLayout.distribute``.

    Args:
        tile: Tile of the layout's shape.
        layout: Distribution over threads.
        subgroups: Number of subgroups; None for the ids that the layout uses.
        subgroup_size: Threads of one.
        replicate_threads: True if surplus threads hold copies.

    Returns:
        As ``NestedLayout.distribute``.

    Raises:
        ValueError: The layout does not fit the tile or the threads.
    """
    return layout.distribute(tile, subgroups, subgroup_size, replicate_threads)


def to_simd(distributed: npt.ArrayLike, layout: NestedLayout, replicate_threads: bool = False) -> AnyArray:
    """Return the tile of a distributed array (``NestedLayout.undistribute``)."""
    return layout.undistribute(distributed, replicate_threads)


def exchange(
    source: NestedLayout,
    target: NestedLayout,
    subgroups: int,
    subgroup_size: int = 32,
    replicate_threads: bool = False,
) -> Exchange:
    """Return the scope of element movement from ``source`` to ``target`` (exact, unlike IREE's conservative rule).

    A thread that already holds a copy of an element does not need another thread.

    Args:
        source: Distribution before the conversion.
        target: Distribution after the conversion, of the same shape.
        subgroups: Number of subgroups.
        subgroup_size: Threads of one.
        replicate_threads: True if surplus threads hold copies.

    Raises:
        ValueError: The layouts are of different shapes or do not fit the threads.
    """
    if source.shape != target.shape:
        raise ValueError(
            f"the source distributes a tile of {list(source.shape)} but the target one of {list(target.shape)}"
        )
    has, needs = (layout.numbers(subgroups, subgroup_size, replicate_threads) for layout in (source, target))
    if np.array_equal(has, needs):
        return Exchange.NONE
    elements = int(np.prod(source.shape, dtype=np.int64))
    threads = np.arange(subgroups * subgroup_size).reshape(subgroups, subgroup_size, 1)
    if np.isin(threads * elements + needs, threads * elements + has).all():
        return Exchange.REGISTERS
    owners = np.arange(subgroups).reshape(subgroups, 1, 1)
    if np.isin(owners * elements + needs, owners * elements + has).all():
        return Exchange.SUBGROUP
    return Exchange.WORKGROUP


def to_layout(
    distributed: npt.ArrayLike,
    source: NestedLayout,
    target: NestedLayout,
    shared: SharedFunction | None = None,
    replicate_threads: bool = False,
) -> Converted:
    """Convert a distributed array from ``source`` to ``target``.

    If every thread already holds its elements, only registers are renamed, and ``shared`` is not used. Otherwise all
    threads store to shared memory, wait at a barrier, and load their elements of the target.

    Args:
        distributed: [subgroups, threads, ...], as ``to_simt`` gives it.
        source: Distribution before the conversion.
        target: Distribution after the conversion.
        shared: Offsets in shared memory by (row, col): a SharedLayout, or any function of the tile's coordinates. None
            if it is not needed.
        replicate_threads: True if surplus threads hold copies.

    Raises:
        ValueError: ``shared`` is needed and missing, gives two elements one offset, or the layouts do not fit.
    """
    array = np.asarray(distributed)
    tile = source.undistribute(array, replicate_threads)
    subgroups, subgroup_size = array.shape[:2]
    distance = exchange(source, target, subgroups, subgroup_size, replicate_threads)
    if distance in (Exchange.NONE, Exchange.REGISTERS):
        values = target.distribute(tile, subgroups, subgroup_size, replicate_threads)
        return Converted(values, distance, 0)
    if shared is None:
        raise ValueError(
            "threads of the target need elements that other threads hold: give shared, the layout of the shared memory "
            "for the exchange"
        )
    offsets = _offsets(shared, source.shape)
    memory = np.zeros(int(offsets.max()) + 1, dtype=array.dtype)
    memory[source.distribute(offsets, subgroups, subgroup_size, replicate_threads)] = array
    loads = target.distribute(offsets, subgroups, subgroup_size, replicate_threads)
    return Converted(memory[loads], distance, memory.size)


def _offsets(shared: SharedFunction, shape: tuple[int, ...]) -> IntArray:
    offsets = np.broadcast_to(np.asarray(shared(*np.indices(shape)), dtype=np.int64), shape)
    if (offsets < 0).any():
        raise ValueError(f"shared gives an element the offset {int(offsets.min())}: offsets start at 0")
    unique, counts = np.unique(offsets, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"shared puts {counts.max()} elements at offset {unique[counts.argmax()]}: it must be injective"
        )
    return offsets
