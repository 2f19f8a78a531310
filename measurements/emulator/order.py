"""In which order an emulated launch runs its blocks, and lets its threads take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

OrderKind = Literal["ascending", "descending", "alternating", "interleaved", "random"]
RESIDENT_BLOCKS = 128


@dataclass(frozen=True)
class Order:
    """``blocks``: ascending or descending, alternating (from both ends in turn), or random; one after another, but that
    a block which waits lets others go on. ``interleaved``: up to 16 blocks at a time, from both ends, take turns at
    each access of global memory. With a ``seed`` other than 0, warps and lanes take turns at random, some warps far
    ahead of others, and so do the atomics that they reach, and the blocks that are interleaved; the same seed gives the
    same turns. ``resident``: how many blocks (or clusters) may have begun and not ended; all of a cooperative launch.
    """

    blocks: OrderKind = "ascending"
    seed: int = 0
    resident: int = RESIDENT_BLOCKS

    def __post_init__(self) -> None:
        if self.resident < 1:
            raise ValueError(f"resident must be at least 1 block, not {self.resident}")

    @property
    def name(self) -> str:
        return self.blocks + (f", turns of seed {self.seed}" if self.seed else "")

    def of(self, count: int) -> npt.NDArray[np.int64]:
        """Return the indices 0 to ``count`` - 1 in this order."""
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
