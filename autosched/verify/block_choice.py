"""How many blocks of a launch run, and which, if all of them would take too long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from measurements.emulator import Emulation

_PROBED = 8  # blocks whose time gives that of all


class SampleLimits(NamedTuple):
    """Limits of a run of some blocks.

    Attributes:
        whole_seconds: CPU seconds; a launch that takes no longer runs whole.
        seconds: CPU seconds of the blocks of one run.
        fewest: Least number of blocks, however long they take.
        most: Largest number of blocks.
    """

    whole_seconds: float
    seconds: float
    fewest: int
    most: int

    def blocks(self, total: int, seconds_of_block: float) -> int | None:
        """Return how many blocks run; None: all of them.

        Args:
            total: Blocks of the grid.
            seconds_of_block: CPU seconds of one.
        """
        if seconds_of_block * total <= self.whole_seconds:
            return None
        return min(self.most, max(self.fewest, int(self.seconds / max(seconds_of_block, 1e-6))))


def seconds_of_block(run: Callable[[Sequence[int]], Emulation], total: int) -> float | None:
    """Return about how long one block takes, without what each launch takes; None if some blocks cannot be emulated.

    Args:
        run: Emulates some blocks of the grid.
        total: Blocks of the grid.
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
