"""Generate test inputs for integer arrays that programs read with ``load_scalar`` or ``find_tile``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.programs.language import ir

EDGES = 0.25  # fraction of random numbers that are at or next to an end of the range


@dataclass(frozen=True)
class ScalarInput:
    """An input array with numbers from ``low`` to ``high``; with ``ordered``, they ascend along the last dimension."""

    low: int
    high: int
    ordered: bool

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
        """Return random numbers. About a quarter of them are ends of the range or adjacent to an end."""
        drawn = rng.integers(self.low, self.high + 1, shape)
        edges = np.clip([self.low, self.low + 1, self.high - 1, self.high], self.low, self.high)
        return self._arranged(np.where(rng.random(shape) < EDGES, rng.choice(edges, shape), drawn))

    def edge_cases(self, shape: tuple[int, ...]) -> Iterator[tuple[str, IntArray]]:
        """Yield edge cases with their names: constant arrays, descending numbers, and numbers that alternate."""
        count = shape[-1]
        down = np.linspace(self.high, self.low, count).astype(np.int64)
        ends = np.where(np.arange(count) % 2 == 0, self.high, self.low)
        one = min(self.low + 1, self.high)
        for name, line in (
            ("least", np.full(count, self.low)),
            ("one", np.full(count, one)),
            ("largest", np.full(count, self.high)),
            ("descending", down),
            ("alternating", ends),
        ):
            yield name, self._arranged(np.broadcast_to(line, shape))

    def outside(self, rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
        """Return random numbers, about half of them outside of the range. Programs must clamp these."""
        span = self.high - self.low + 1
        drawn = rng.integers(self.low - span // 2 - 1, self.high + span // 2 + 2, shape)
        return np.clip(drawn, -(2**31), 2**31 - 1).astype(np.int32)

    def _arranged(self, numbers: IntArray) -> IntArray:
        """Return the numbers as i32. If ``ordered``, they are sorted, the first is ``low`` and the last is ``high``."""
        arranged = np.array(numbers)
        if self.ordered:
            arranged.sort(axis=-1)
            arranged[..., 0], arranged[..., -1] = self.low, self.high
        return arranged.astype(np.int32)


def scalar_inputs(trace: ir.Trace) -> Mapping[str, ScalarInput]:
    """Return the range of each array, by name.

    If an array is loaded several times, its range is the intersection of the ranges of these loads.

    Raises:
        ProgramError: If the ranges of the loads of an array do not overlap.
    """
    scalars: dict[str, ScalarInput] = {}
    for operation, _ in trace.walk():
        if isinstance(operation, ir.FindTile):
            low, ordered = 0, True
        elif isinstance(operation, ir.LoadScalar):
            low, ordered = operation.low, operation.ordered
        else:
            continue
        name, high = operation.array.name, operation.high
        if name in scalars:
            before = scalars[name]
            low, high, ordered = max(low, before.low), min(high, before.high), ordered or before.ordered
        if low > high:
            raise ir.ProgramError(
                f"{operation.source}: load_scalar: the ranges of two loads of {name} do not overlap: change low or high"
            )
        scalars[name] = ScalarInput(low, high, ordered)
    return scalars
