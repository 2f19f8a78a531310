"""Addresses of loads from a packed array to registers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.programs.language.distribution import WIDEST, Distribution
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning.exchange import neighbours


@lru_cache(maxsize=2**12)
def packed_width(array: Array, of: Distribution, warps: int) -> int:
    """Return the number of registers that a thread loads from a packed array with one instruction."""
    assert array.order is not None
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d))[None, :] for d in (0, 1))
    strips, along = array.order.position(rows, columns)
    positions = strips * array.stored[1] + along
    assert (positions == positions[:, :1] + np.asarray(packed_distances(array, of))).all(), "digits are powers of two"
    return neighbours(positions, WIDEST // array.dtype.bytes)


def packed_distances(array: Array, of: Distribution) -> list[int]:
    """Return, for each register, the distance in memory from register 0's element. It is equal in all threads.

    There are two reasons. Windows begin at boundaries of the memory order's tiles. The sizes of digits are powers of
    two, so threads and registers determine different bits of a position.
    """
    assert array.order is not None
    strips, positions = array.order.position(*(np.asarray(of.of_registers(d)) for d in (0, 1)))
    distances: list[int] = (strips * array.stored[1] + positions).tolist()
    return distances
