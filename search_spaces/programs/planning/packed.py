"""Positions of a thread's registers in a packed array whose tiles are loaded to registers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.programs.language.distribution import WIDEST, Distribution
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning.exchange import neighbours


@lru_cache(maxsize=2**12)
def packed_width(array: Array, of: Distribution, warps: int) -> int:
    """Return the number of registers that a thread loads with one instruction."""
    assert array.order is not None
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d))[None, :] for d in (0, 1))
    strips, along = array.order.position(rows, columns)
    positions = strips * array.stored[1] + along
    assert (positions == positions[:, :1] + np.asarray(packed_distances(array, of))).all(), "digits are powers of two"
    return neighbours(positions, WIDEST // array.dtype.bytes)


def packed_distances(array: Array, of: Distribution) -> list[int]:
    """Return the distance in memory of each register's element from that of register 0, the same in all threads.

    Tiles begin at tiles of the memory order. Digits of threads and registers are powers of two, so that their bits
    do not overlap.
    """
    assert array.order is not None
    strips, positions = array.order.position(*(np.asarray(of.of_registers(d)) for d in (0, 1)))
    distances: list[int] = (strips * array.stored[1] + positions).tolist()
    return distances
