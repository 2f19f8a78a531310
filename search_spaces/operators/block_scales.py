"""Layouts of the scales of a block-scaled factor: in rows ("row"), or in tiles for sm_100's tensor cores ("tiled").

The ``lines`` of a factor are the rows of a or the columns of b. Each line has one scale per block along k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SCALE_ORDERS = ("row", "tiled")
# (lines, blocks) of a tile, which has 512 bytes (cuBLAS, "1D block scaling factors layout").
TILE_LINES, TILE_BLOCKS = 128, 4
_LANES = 32  # lines per group: adjacent lines of a group are 16 bytes apart, and line i + 32 is 4 bytes after line i

Indices = npt.NDArray[np.int64]


def scales_shape(order: str, batch: int, lines: int, blocks: int) -> tuple[int, ...]:
    """Return the shape of the array of scales.

    Args:
        order: "row" or "tiled".
        batch: Number of matrices.
        lines: Lines of each matrix.
        blocks: Blocks along each line.

    Returns:
        (batch, lines, blocks) for "row", and (batch, tiles of lines, tiles of blocks, 32, 4, 4) for "tiled". In the
        tiled shape, the line of a scale is tile * 128 + third last index + 32 * second last index.
    """
    if order == "row":
        return batch, lines, blocks
    quarters = TILE_LINES // _LANES
    return batch, -(-lines // TILE_LINES), -(-blocks // TILE_BLOCKS), _LANES, quarters, TILE_BLOCKS


def scale_positions(order: str, lines: Indices, blocks: Indices, of_lines: int, of_blocks: int) -> Indices:
    """Return the offsets of the scales of ``lines`` and ``blocks`` among the scales of one matrix.

    Args:
        order: "row" or "tiled".
        lines: Indices of lines.
        blocks: Indices of blocks.
        of_lines: Number of lines of the matrix.
        of_blocks: Number of blocks of each line.

    Returns:
        Offsets in elements, with the axes [lines, blocks].
    """
    line, block = lines[:, None], blocks[None, :]
    if order == "row":
        return line * of_blocks + block
    across = -(-of_blocks // TILE_BLOCKS)
    tile = line // TILE_LINES * across + block // TILE_BLOCKS
    within = line % _LANES * 16 + line % TILE_LINES // _LANES * TILE_BLOCKS + block % TILE_BLOCKS
    return tile * (TILE_LINES * TILE_BLOCKS) + within


def in_lines(order: str, stored: npt.NDArray[Any], lines: int, blocks: int) -> npt.NDArray[Any]:
    """Return stored scales in the order of lines and blocks, without the padding of tiles.

    Args:
        order: "row" or "tiled".
        stored: Array with the shape ``scales_shape``.
        lines: Lines of each matrix.
        blocks: Blocks along each line.

    Returns:
        Array with the axes [batch, lines, blocks].
    """
    at = scale_positions(order, np.arange(lines), np.arange(blocks), lines, blocks)
    return stored.reshape(stored.shape[0], -1)[:, at]


def in_order(order: str, scales: npt.NDArray[Any], filling: int) -> npt.NDArray[Any]:
    """Return scales in their storage order, with the shape ``scales_shape``.

    Args:
        order: "row" or "tiled".
        scales: Array with the axes [batch, lines, blocks].
        filling: Value for the padding of tiles.
    """
    batch, lines, blocks = scales.shape
    stored = np.full(scales_shape(order, batch, lines, blocks), filling, dtype=scales.dtype)
    at = scale_positions(order, np.arange(lines), np.arange(blocks), lines, blocks)
    stored.reshape(batch, -1)[:, at.ravel()] = scales.reshape(batch, -1)
    return stored
