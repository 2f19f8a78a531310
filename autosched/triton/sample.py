"""Select blocks of a large launch, and add the blocks for which the selected blocks wait."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from autosched.verify.block_choice import chosen_blocks
from measurements.emulator import Emulation, Finding, FindingKind

_WAITING = (FindingKind.DEADLOCK, FindingKind.BARRIER_NOT_REACHED)
_BLOCK = re.compile(r"block \((\d+), (\d+), (\d+)\)")
# Limits in executed warp instructions. All blocks run if the launch executes at most _CHEAP instructions, which takes
# seconds. _MOST limits all samples of a launch together.
_CHEAP, _MOST = 5e6, 1e8


def sampled(grid: tuple[int, int, int], most: int | None) -> tuple[int, ...] | None:
    """Return the blocks to run: neighbours along each axis, which share tile edges, then distant blocks.

    Returns None if all blocks run.
    """
    total = math.prod(grid)
    if most is None or total <= most:
        return None
    near = [n for n in (0, 1, grid[0], grid[0] * grid[1]) if n < total]
    return tuple(sorted(list(dict.fromkeys([0, total - 1, *near, *chosen_blocks(grid, most, seed=0)]))[:most]))


@dataclass
class Sample:
    """Sample of a launch: the ``blocks`` that run; None for all."""

    grid: tuple[int, int, int]
    blocks: tuple[int, ...] | None
    _executed: int = 0
    _waited: Counter[int] = field(default_factory=Counter)

    def waits(self, run: Emulation) -> str | None:
        """Return a message if a block of the sample waits for a block that did not run, or None."""
        waiting = self._waiting(run)
        if self.blocks is None or waiting is None:
            return None
        where = f"{waiting.file}:{waiting.line}: " if waiting.file else ""
        return (
            f"{where}a block waits for a block that did not run ({len(self.blocks)} of {math.prod(self.grid)} "
            f"ran): {waiting.message}; run all blocks"
        )

    def widened(self, run: Emulation) -> tuple[int, ...] | None:
        """Return a larger sample with more neighbours of the waiting block, twice as many each time that it waits.

        Returns None (all blocks) if the whole launch executes few instructions. Returns the sample unchanged if the
        samples so far have executed too many instructions.
        """
        assert self.blocks is not None
        total = math.prod(self.grid)
        waiting = self._waiting(run)
        match = _BLOCK.search(waiting.message) if waiting is not None else None
        executed = sum(times for _, times in run.executed)
        self._executed += executed
        if match is None or executed / len(self.blocks) * total <= _CHEAP:
            return None
        if self._executed > _MOST:
            return self.blocks
        x, y, z = map(int, match.groups())
        block = (z * self.grid[1] + y) * self.grid[0] + x
        self._waited[block] += 1
        far = 2 ** self._waited[block]
        wider = {*self.blocks, *range(max(block - far, 0), min(block + far + 1, total))}
        return tuple(sorted(wider)) if len(wider) < total else None

    @staticmethod
    def _waiting(run: Emulation) -> Finding | None:
        return next((f for f in run.findings if f.kind in _WAITING), None)
