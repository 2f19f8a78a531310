"""Order in which an emulated launch runs its blocks and its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

OrderKind = Literal["ascending", "descending", "alternating", "interleaved", "random"]
RESIDENT_BLOCKS = 128


@dataclass(frozen=True)
class Order:
    """Order of blocks and threads.

    Attributes:
        blocks: "ascending", "descending", "alternating" (from both ends) or "random": blocks run one after another;
            while a block waits, other blocks run. "interleaved": up to 16 blocks, from both ends of the grid, take
            turns at each access to global memory.
        seed: If not 0, warps, lanes, their atomics and interleaved blocks run in a random order, some warps far ahead
            of other warps. The same seed gives the same order.
        resident: Maximum number of resident blocks (or clusters). In a cooperative launch, all blocks are resident.
    """

    blocks: OrderKind = "ascending"
    seed: int = 0
    resident: int = RESIDENT_BLOCKS

    def __post_init__(self) -> None:
        if self.resident < 1:
            raise ValueError(f"resident must be at least 1 block, not {self.resident}")

    @property
    def name(self) -> str:
        """Name of the order for messages."""
        return self.blocks + (f", thread seed {self.seed}" if self.seed else "")

    def of(self, count: int) -> npt.NDArray[np.int64]:
        """Return the block indices 0 to ``count`` - 1 in this order."""
        ascending = np.arange(count)
        match self.blocks:
            case "ascending":
                return ascending
            case "descending":
                return ascending[::-1]
            case "alternating" | "interleaved":
                both = np.empty(count, dtype=np.int64)
                both[0::2], both[1::2] = ascending[: -(-count // 2)], ascending[::-1][: count // 2]
                return both
            case "random":
                return np.random.default_rng(self.seed).permutation(count)


ASCENDING = Order()
