"""Layout of the scales of a block-scaled factor: in rows, or in the tiles of sm_100's tensor cores.

A factor has ``lines`` (rows of a, columns of b), and each line has one scale per block along k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SCALE_ORDERS = ("row", "tiled")
TILE_LINES, TILE_BLOCKS = 128, 4  # size of a tile of 512 bytes (cuBLAS, "1D block scaling factors layout")
_LANES = 32  # consecutive lines are 16 bytes apart; lines 32 apart are 4 bytes apart

Indices = npt.NDArray[np.int64]


def scales_shape(order: str, batch: int, lines: int, blocks: int) -> tuple[int, ...]:
    """Return the shape of the array of scales.

    Args:
        order: "row" or "tiled".
        batch: Number of matrices.
        lines: Lines of each matrix.
        blocks: Blocks along each line.

    Returns:
        (batch, lines, blocks) for "row"; for "tiled" (batch, tiles of lines, tiles of blocks, 32, 4, 4), where a line
        is tile * 128 + third last + 32 * second last index.
    """
    if order == "row":
        return batch, lines, blocks
    quarters = TILE_LINES // _LANES
    return batch, -(-lines // TILE_LINES), -(-blocks // TILE_BLOCKS), _LANES, quarters, TILE_BLOCKS


def scale_positions(order: str, lines: Indices, blocks: Indices, of_lines: int, of_blocks: int) -> Indices:
    """Return the positions in one matrix's scales of every line of ``lines`` with every block of ``blocks``.

    Args:
        order: "row" or "tiled".
        lines: Indices of lines.
        blocks: Indices of blocks.
        of_lines: Number of lines of the matrix.
        of_blocks: Number of blocks of each line.

    Returns:
        [lines, blocks], indices of elements.
    """
    line, block = lines[:, None], blocks[None, :]
    if order == "row":
        return line * of_blocks + block
    across = -(-of_blocks // TILE_BLOCKS)
    tile = line // TILE_LINES * across + block // TILE_BLOCKS
    within = line % _LANES * 16 + line % TILE_LINES // _LANES * TILE_BLOCKS + block % TILE_BLOCKS
    return tile * (TILE_LINES * TILE_BLOCKS) + within


def in_lines(order: str, stored: npt.NDArray[Any], lines: int, blocks: int) -> npt.NDArray[Any]:
    """Return stored scales by line and block, without the padding of tiles.

    Args:
        order: "row" or "tiled".
        stored: [batch, ...], of the shape ``scales_shape``.
        lines: Lines of each matrix.
        blocks: Blocks along each line.

    Returns:
        [batch, lines, blocks].
    """
    at = scale_positions(order, np.arange(lines), np.arange(blocks), lines, blocks)
    return stored.reshape(stored.shape[0], -1)[:, at]


def in_order(order: str, scales: npt.NDArray[Any], filling: int) -> npt.NDArray[Any]:
    """Return scales (batch, lines, blocks) as they are stored.

    Args:
        order: "row" or "tiled".
        scales: [batch, lines, blocks].
        filling: Value of the padding of tiles.
    """
    batch, lines, blocks = scales.shape
    stored = np.full(scales_shape(order, batch, lines, blocks), filling, dtype=scales.dtype)
    at = scale_positions(order, np.arange(lines), np.arange(blocks), lines, blocks)
    stored.reshape(batch, -1)[:, at.ravel()] = scales.reshape(batch, -1)
    return stored
