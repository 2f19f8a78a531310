"""Shared-memory addresses of a thread's elements in exchanges and converted tiles, and the cost of these accesses."""

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
    """Return ``flips`` and ``adds`` such that register r has the address ``(base ^ flips[r]) + adds[r]``.

    ``base`` is the address of register 0. Returns None if flips and adds are not the same for all threads.
    """
    return _steps(layout, _addresses(of, layout, None, warps))


def _steps(layout: SharedLayout, addresses: IntArray) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    base, flips, adds = addresses[:, 0], list[int](), list[int]()
    period = max((step.period for step in layout.steps if isinstance(step, Swizzle)), default=1)
    for address in addresses.T:
        add = int(address[0] - base[0])
        if not (address - base == add).all():  # adding a multiple of the swizzle's period does not change the swizzle
            add = int(address[0]) // period * period - int(base[0]) // period * period
        flip = int(address[0] - add) ^ int(base[0])
        if not ((base ^ flip) + add == address).all():
            return None
        flips.append(flip)
        adds.append(add)
    return tuple(flips), tuple(adds)


def access_width(of: Distribution, layout: SharedLayout) -> int:
    """Return how many registers (1 to 4) one access copies.

    Their elements are adjacent both in the tile and in shared memory.
    """
    return max(math.gcd(of.run(0), layout.contiguity("rows"), 4), math.gcd(of.run(1), layout.contiguity("cols"), 4))


@dataclass(frozen=True)
class ConvertedAccess:
    """The accesses of a block that read a shared-memory tile for conversion in registers.

    Attributes:
        width: Registers per access.
        cycles: Shared-memory cycles of all accesses.
        accesses: Number of accesses (warp instructions).
        steps: Result of the function ``steps``.
    """

    width: int
    cycles: int
    accesses: int
    steps: tuple[tuple[int, ...], tuple[int, ...]] | None


@lru_cache(maxsize=2**12)
def reading(
    of: Distribution, layout: SharedLayout, order: MemoryOrder | None, warps: int, element_bytes: int
) -> ConvertedAccess:
    """Return the accesses that read a staged tile. ``order`` is the memory order of a packed array."""
    addresses = _addresses(of, layout, order, warps)
    width = neighbours(addresses, WIDEST // element_bytes)
    accesses = element_bytes * addresses[:, ::width].reshape(warps, WARP, -1).transpose(0, 2, 1)
    cycles = int(bank_conflicts.wavefronts(accesses, element_bytes * width).sum())
    return ConvertedAccess(width, cycles, warps * of.registers // width, _steps(layout, addresses))


def neighbours(addresses: IntArray, most: int) -> int:
    """Return how many consecutive registers have adjacent and aligned addresses in every thread.

    ``addresses``: Array of element addresses, of shape (threads, registers).
    """
    width = 1
    while 2 * width <= most and addresses.shape[1] % (2 * width) == 0:
        groups = addresses.reshape(len(addresses), -1, 2 * width)
        if (groups[..., 0] % (2 * width)).any() or (groups - groups[..., :1] != np.arange(2 * width)).any():
            break
        width *= 2
    return width


def _addresses(of: Distribution, layout: SharedLayout, order: MemoryOrder | None, warps: int) -> IntArray:
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d))[None, :] for d in (0, 1))
    if order is not None:
        rows, columns = order.position(rows, columns)
    return np.asarray(layout(rows, columns))


@lru_cache(maxsize=2**14)
def wavefronts(of: Distribution, layout: SharedLayout, warps: int, store: bool) -> int:
    """Return the number of shared-memory cycles in which a block writes or reads all words of a tile.

    If several threads hold the same words, only the first of them writes.
    """
    width = access_width(of, layout)
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d)[::width]) for d in (0, 1))
    addresses = 4 * np.asarray(layout(rows, columns))
    if store:
        alone = np.zeros(len(addresses), dtype=np.bool_)
        alone[np.unique(addresses[:, 0], return_index=True)[1]] = True
        addresses = np.where(alone[:, None], addresses, -1)
    accesses = addresses.reshape(warps, WARP, -1).transpose(0, 2, 1)
    return int(bank_conflicts.wavefronts(accesses, 4 * width).sum())
