"""Where a thread's registers lie in a tile in shared memory that changes hands or is converted, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.costs import bank_conflicts
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.memory_order import MemoryOrder
from search_spaces.layouts.shared_layout import SharedLayout, Swizzle
from search_spaces.programs.language.distribution import WIDEST, Distribution


def steps(layout: SharedLayout, of: Distribution, warps: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return flips and adds: register r of every thread lies at ``(base ^ flips[r]) + adds[r]``, where base is the
    place of its register 0. None where they differ between threads.
    """
    return _steps(layout, _places(of, layout, None, warps))


def _steps(layout: SharedLayout, places: IntArray) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    base, flips, adds = places[:, 0], list[int](), list[int]()
    period = max((step.period for step in layout.steps if isinstance(step, Swizzle)), default=1)
    for place in places.T:
        add = int(place[0] - base[0])
        if not (place - base == add).all():  # whole periods pass through a swizzle unchanged
            add = int(place[0]) // period * period - int(base[0]) // period * period
        flip = int(place[0] - add) ^ int(base[0])
        if not ((base ^ flip) + add == place).all():
            return None
        flips.append(flip)
        adds.append(add)
    return tuple(flips), tuple(adds)


def access_width(of: Distribution, layout: SharedLayout) -> int:
    """Return how many registers an access takes: neighbours in the tile that the layout keeps together, 4 at most."""
    return max(math.gcd(of.run(0), layout.contiguity("rows"), 4), math.gcd(of.run(1), layout.contiguity("cols"), 4))


@dataclass(frozen=True)
class ConvertedAccess:
    """How threads read a tile that is converted: ``width`` registers at a time, in ``cycles`` of shared memory and as
    many ``accesses`` of warps. Register r lies at ``(base ^ flips[r]) + adds[r]``, as of ``steps``, where there are
    such.
    """

    width: int
    cycles: int
    accesses: int
    steps: tuple[tuple[int, ...], tuple[int, ...]] | None


@lru_cache(maxsize=2**12)
def reading(
    of: Distribution, layout: SharedLayout, order: MemoryOrder | None, warps: int, element_bytes: int
) -> ConvertedAccess:
    """Return how a tile in shared memory is read, which has the order of its array in memory."""
    places = _places(of, layout, order, warps)
    width = neighbours(places, WIDEST // element_bytes)
    accesses = element_bytes * places[:, ::width].reshape(warps, WARP, -1).transpose(0, 2, 1)
    cycles = int(bank_conflicts.wavefronts(accesses, element_bytes * width).sum())
    return ConvertedAccess(width, cycles, warps * of.registers // width, _steps(layout, places))


def neighbours(places: IntArray, most: int) -> int:
    """Return how many registers lie side by side for every thread, at multiples of as many; ``places`` are (threads,
    registers).
    """
    width = 1
    while 2 * width <= most and places.shape[1] % (2 * width) == 0:
        groups = places.reshape(len(places), -1, 2 * width)
        if (groups[..., 0] % (2 * width)).any() or (groups - groups[..., :1] != np.arange(2 * width)).any():
            break
        width *= 2
    return width


def _places(of: Distribution, layout: SharedLayout, order: MemoryOrder | None, warps: int) -> IntArray:
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d))[None, :] for d in (0, 1))
    if order is not None:
        rows, columns = order.place(rows, columns)
    return np.asarray(layout(rows, columns))


@lru_cache(maxsize=2**14)
def wavefronts(of: Distribution, layout: SharedLayout, warps: int, store: bool) -> int:
    """Return the cycles of shared memory in which a block writes all words of a tile, or reads them.

    Of threads with the same words the first one writes.
    """
    width = access_width(of, layout)
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d)[::width]) for d in (0, 1))
    places = 4 * np.asarray(layout(rows, columns))
    if store:
        alone = np.zeros(len(places), dtype=np.bool_)
        alone[np.unique(places[:, 0], return_index=True)[1]] = True
        places = np.where(alone[:, None], places, -1)
    accesses = places.reshape(warps, WARP, -1).transpose(0, 2, 1)
    return int(bank_conflicts.wavefronts(accesses, 4 * width).sum())
