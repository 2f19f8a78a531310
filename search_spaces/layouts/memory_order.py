"""Storage orders for weights.

Weights are packed once, before they are used. Each thread of a matmul can then load its elements in one access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.arrays import Array


@dataclass(frozen=True)
class MemoryOrder:
    """A matrix stored in tiles of ``rows`` x ``columns``, both powers of two.

    Tiles are stored in row-major order. ``bits`` defines the order of elements in a tile. It has one pair for each bit
    of an element's offset, lowest bit first. The offset's bit equals a bit of the row or column index. The pair gives
    the dimension (0: row, 1: column) and the number of the index's bit.
    """

    rows: int
    columns: int
    bits: tuple[tuple[int, int], ...]

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the number of strips (rows of tiles) of a matrix, and the elements per strip.

        Tiles must divide the matrix.
        """
        return rows // self.rows, columns * self.rows

    def position(self, row: Any, column: Any) -> tuple[Any, Any]:
        """Return the strip of each element and the offset in this strip. The indices are numbers or arrays."""
        inner = sum(((row, column)[d] >> bit & 1) << at for at, (d, bit) in enumerate(self.bits))
        return row // self.rows, column // self.columns * (self.rows * self.columns) + inner

    def code(self, row: str, column: str) -> tuple[str, str]:
        """Return the results of ``position`` in CUDA C++. ``row`` and ``column`` are the expressions of the indices."""
        terms, at = list[str](), 0
        while at < len(self.bits):
            d, first = self.bits[at]
            count = 1
            while at + count < len(self.bits) and self.bits[at + count] == (d, first + count):
                count += 1
            terms.append(f"((({(row, column)[d]}) >> {first} & {(1 << count) - 1}) << {at})")
            at += count
        before = f"({column}) / {self.columns} * {self.rows * self.columns}"
        return f"({row}) / {self.rows}", " + ".join([before, *terms])

    def pack(self, matrix: Array) -> Array:
        """Return a matrix in memory order, with one row per strip. Tiles must divide the matrix."""
        packed = np.empty(self.shape(*matrix.shape), dtype=matrix.dtype)
        packed[self._positions(matrix.shape)] = matrix
        return packed

    def unpack(self, packed: Array, shape: tuple[int, int]) -> Array:
        """Return the matrix of ``shape`` from the result of ``pack``."""
        matrix: Array = packed.reshape(self.shape(*shape))[self._positions(shape)]
        return matrix

    def _positions(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        strips, positions = self.position(np.arange(shape[0])[:, None], np.arange(shape[1])[None, :])
        return np.broadcast_arrays(strips, positions)  # type: ignore[return-value]


# Fragments of 16 x 16 elements of two bytes (mma.m16n8k16, wgmma): a lane has rows g and g + 8, and columns 2 t, 2 t
# + 1, 2 t + 8 and 2 t + 9, with g = lane / 4 and t = lane % 4. In this order, a lane's 16 bytes of a fragment are
# contiguous. Each element of the array is a 32-bit word of eight 4-bit numbers, so that 16 x 8 words cover four
# fragments. A lane has words t and t + 4 of both rows.
FRAGMENT_WORDS = MemoryOrder(16, 8, ((0, 3), (1, 2), (1, 0), (1, 1), (0, 0), (0, 1), (0, 2)))
# The same order for elements of one byte; 16 bytes then cover two fragments.
FRAGMENT_BYTES = MemoryOrder(
    16, 32, ((1, 0), (0, 3), (1, 3), (1, 4), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2))
)  # fmt: skip
