"""Execute the layout operations to_simt, to_simd and to_layout (IREE VectorExt dialect) on numpy arrays.

A *distributed* array contains the registers of every thread, with the axes ``[subgroups, threads, *batch, *outer,
*element]``. These operations execute a schedule's data movement in Python, for tests.
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
# function from arrays of coordinates in a tile (row, col, ...) to element offsets in shared memory
SharedFunction = Callable[..., Any]


class Exchange(Enum):
    """The scope in which a conversion moves elements. Scopes are listed from the smallest to the largest."""

    NONE = "none"  # no element moves: every register keeps its element
    REGISTERS = "registers"  # elements move between registers of a thread
    SUBGROUP = "subgroup"  # elements move between the threads of a subgroup, possibly by shuffles
    WORKGROUP = "workgroup"  # elements move between subgroups, through shared memory


@dataclass(frozen=True)
class Converted:
    """Result of a conversion: the distributed array in its new layout, with the scope and memory of the conversion.

    ``shared_elements`` is the number of elements of shared memory that the conversion used.
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
    """Distribute a tile over threads, like ``NestedLayout.distribute``.

    Args:
        tile: Tile with the shape of the layout.
        layout: Distribution over threads.
        subgroups: Number of subgroups; None for the ids that the layout uses.
        subgroup_size: Number of threads of a subgroup.
        replicate_threads: True if surplus threads hold copies.

    Returns:
        As ``NestedLayout.distribute``.

    Raises:
        ValueError: The layout does not fit the tile or the threads.
    """
    return layout.distribute(tile, subgroups, subgroup_size, replicate_threads)


def to_simd(distributed: npt.ArrayLike, layout: NestedLayout, replicate_threads: bool = False) -> AnyArray:
    """Assemble the tile of a distributed array, like ``NestedLayout.undistribute``."""
    return layout.undistribute(distributed, replicate_threads)


def exchange(
    source: NestedLayout,
    target: NestedLayout,
    subgroups: int,
    subgroup_size: int = 32,
    replicate_threads: bool = False,
) -> Exchange:
    """Return the scope in which a conversion must move elements. The scope is exact; IREE's rule is conservative.

    A thread that already holds a copy of an element does not need it from another thread.

    Args:
        source: Distribution before the conversion.
        target: Distribution after the conversion, of the same shape.
        subgroups: Number of subgroups.
        subgroup_size: Number of threads of a subgroup.
        replicate_threads: True if surplus threads hold copies.

    Raises:
        ValueError: The layouts have different shapes, or do not fit the threads.
    """
    if source.shape != target.shape:
        raise ValueError(
            f"the source distributes a tile of {list(source.shape)}, but the target a tile of {list(target.shape)}"
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

    If every thread already holds its elements of the target, only registers are renamed, and ``shared`` is not used.
    Otherwise all threads store their elements to shared memory, wait at a barrier, and load their elements of the
    target.

    Args:
        distributed: Array with the axes [subgroups, threads, ...], as returned by ``to_simt``.
        source: Distribution before the conversion.
        target: Distribution after the conversion.
        shared: Function from coordinates in the tile to offsets in shared memory, such as a SharedLayout. None if
            shared memory is not needed.
        replicate_threads: True if surplus threads hold copies.

    Raises:
        ValueError: ``shared`` is needed but None, or maps two elements to one offset; or the layouts do not fit.
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
            "threads need elements that other threads hold: pass `shared`, the layout of shared memory for the exchange"
        )
    offsets = _offsets(shared, source.shape)
    memory = np.zeros(int(offsets.max()) + 1, dtype=array.dtype)
    memory[source.distribute(offsets, subgroups, subgroup_size, replicate_threads)] = array
    loads = target.distribute(offsets, subgroups, subgroup_size, replicate_threads)
    return Converted(memory[loads], distance, memory.size)


def _offsets(shared: SharedFunction, shape: tuple[int, ...]) -> IntArray:
    offsets = np.broadcast_to(np.asarray(shared(*np.indices(shape)), dtype=np.int64), shape)
    if (offsets < 0).any():
        raise ValueError(f"shared maps an element to offset {int(offsets.min())}: offsets must be at least 0")
    unique, counts = np.unique(offsets, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"shared must be injective, but it maps {counts.max()} elements to offset {unique[counts.argmax()]}"
        )
    return offsets
