"""Choice of the blocks that run if the whole launch would take too long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from measurements.emulator import Emulation

_PROBED = 8  # blocks timed to estimate the whole launch


class SampleLimits(NamedTuple):
    """Limits of a run of some blocks.

    Attributes:
        whole_seconds: Longest launch that runs whole, in CPU seconds.
        seconds: Time limit for the blocks of one run, in CPU seconds.
        fewest: Minimum number of blocks, regardless of time.
        most: Maximum number of blocks.
    """

    whole_seconds: float
    seconds: float
    fewest: int
    most: int

    def blocks(self, total: int, seconds_of_block: float) -> int | None:
        """Return the number of blocks to run; None for all.

        Args:
            total: Blocks of the grid.
            seconds_of_block: Duration of one block in CPU seconds.

        Returns:
            The number, or None.
        """
        if seconds_of_block * total <= self.whole_seconds:
            return None
        return min(self.most, max(self.fewest, int(self.seconds / max(seconds_of_block, 1e-6))))


def seconds_of_block(run: Callable[[Sequence[int]], Emulation], total: int) -> float | None:
    """Return the approximate duration of one block, without the overhead of a launch.

    Args:
        run: Emulates some blocks of the grid.
        total: Blocks of the grid.

    Returns:
        CPU seconds, or None if blocks cannot be emulated alone.
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

    They are the first and the last block, the last ones along each axis, one inside, some at powers of two from the
    ends, and random ones.

    Args:
        grid: Blocks along each axis.
        most: Maximum number of blocks; a smaller grid is returned whole.
        seed: Seed of the random blocks.

    Returns:
        Numbers of blocks in the grid.
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
