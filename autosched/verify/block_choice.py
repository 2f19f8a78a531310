"""Choose the blocks of a grid to emulate if emulating all of them would take too long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from measurements.emulator import Emulation

_PROBED = 8  # number of blocks that are timed to estimate the duration of a launch


class SampleLimits(NamedTuple):
    """Limits that decide how many blocks of a launch are emulated.

    Attributes:
        whole_seconds: Limit in CPU seconds for emulating all blocks. If that takes longer, only some blocks are
            emulated.
        seconds: Time limit for the blocks of one run, in CPU seconds.
        fewest: Minimum number of blocks, which run even if they exceed ``seconds``.
        most: Maximum number of blocks.
    """

    whole_seconds: float
    seconds: float
    fewest: int
    most: int

    def blocks(self, total: int, seconds_of_block: float) -> int | None:
        """Return the number of blocks to run, or None to run all blocks.

        Args:
            total: Number of blocks in the grid.
            seconds_of_block: Duration of one block in CPU seconds.

        Returns:
            The number of blocks, or None.
        """
        if seconds_of_block * total <= self.whole_seconds:
            return None
        return min(self.most, max(self.fewest, int(self.seconds / max(seconds_of_block, 1e-6))))


def seconds_of_block(run: Callable[[Sequence[int]], Emulation], total: int) -> float | None:
    """Return the approximate time to emulate one block, without the overhead of a launch.

    Args:
        run: Emulates some blocks of the grid.
        total: Number of blocks in the grid.

    Returns:
        CPU seconds, or None if single blocks cannot be emulated.
    """
    first = (total - 1) // 2 // _PROBED * _PROBED
    one = run((first,))
    if one.status not in ("ok", "findings"):
        return None
    if one.run_seconds > 1.0:
        return one.run_seconds
    blocks = tuple(range(first, min(first + 1 + _PROBED, total)))
    more = run(blocks)
    if more.status not in ("ok", "findings") or len(blocks) < 2:
        return None
    return max(0.0, more.run_seconds - one.run_seconds) / (len(blocks) - 1)


def chosen_blocks(grid: Sequence[int], most: int, seed: int) -> tuple[int, ...]:
    """Return the blocks to run.

    These are the first and the last block, the last blocks along each axis, and a block in the middle. Half of the
    remaining blocks are random, and the others are a power of two away from the first or the last block.

    Args:
        grid: Blocks along each axis.
        most: Maximum number of blocks. All blocks of a smaller grid are returned.
        seed: Seed of the random blocks.

    Returns:
        Linear indices of blocks in the grid.
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
    candidates = dict.fromkeys((total - 1, 0, inside, *corners, *mixed, *drawn))
    return tuple([block for block in candidates if 0 <= block < total][:most])
