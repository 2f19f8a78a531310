"""Which blocks of a launch run where all of them would take too long."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def chosen_blocks(grid: Sequence[int], most: int, seed: int) -> tuple[int, ...]:
    """Return the first and the last block, the last ones along each axis, one inside, some that are powers of two away
    from the ends, and random ones.

    Args:
        grid: Blocks along each axis.
        most: Number of blocks; all of a smaller grid are returned.
        seed: Seed of the random ones.
    """
    total = math.prod(grid)
    if total <= most:
        return tuple(range(total))
    x, y, z = grid
    corners = [(k * y + j) * x + i for k in {z - 1, 0} for j in {y - 1, 0} for i in {x - 1, 0}]
    inside = ((z - 1) // 2 * y + (y - 1) // 2) * x + (x - 1) // 2
    drawn = np.random.default_rng((seed, 3)).integers(0, total, most).tolist()
    powers = [p for i in reversed(range(total.bit_length() - 1)) for p in (2**i, total - 1 - 2**i)]
    mixed = [block for pair in zip(drawn, powers, strict=False) for block in pair]
    wanted = dict.fromkeys((total - 1, 0, inside, *corners, *mixed, *drawn))
    return tuple([block for block in wanted if 0 <= block < total][:most])
