"""Shared memory of a schedule: tiles that stay, the ring of each loop, and what exchanges use in between.

A loop's exchanges lie behind its ring; those outside of loops lie over the rings, which are dead by then, or over the
last stage of a ring that has the first tiles of what the block computes next. A barrier stands in front of everything
that is written again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.staging import StagedNumbers
from search_spaces.programs.planning.ways import BOX_ALIGNMENT
from search_spaces.spaces.parameters import Value

Place = int | None  # of an exchange: the outermost loop around it, or None
Exchange = tuple[int, int] | int | str | None  # the shape of a tile, the result of a reduction, or a name
ALIGNMENT = 128
MOST_STAGES = 5
EARLY_COPIES = "early_copies"  # whether the ring is filled for the next tile of a block while results leave
EXCHANGES = (
    "pad(4,1)",
    "pad(1,1)",
    "pad(2,1)",
    "pad(8,1)",
    "identity",
    "xor",
    "transpose+pad(1,1)",
    "transpose+pad(4,1)",
)
SHARED_LAYOUTS = ("pad(8,1)", "pad(4,1)", "pad(16,1)", "identity", "transpose+pad(8,1)", "transpose+pad(4,1)")


def exchange_layout(text: str, shape: tuple[int, int]) -> SharedLayout:
    """Return the layout of a tile of 4-byte words in an exchange; what a tile cannot have becomes ``identity``."""
    found = parse_layout(text, *shape)
    if isinstance(found, str):
        found = parse_layout("identity", *shape)
        assert not isinstance(found, str)
    return found


def exchange_bytes(text: str, shape: tuple[int, int]) -> int:
    return aligned(exchange_layout(text, shape).size * 4)


def shared_tile_bytes(array: Array, layout: str) -> int:
    """Return what a tile takes that the program asks for."""
    return aligned(exchange_layout(layout, array.matrix).size * array.dtype.bytes, BOX_ALIGNMENT)


def barrier_bytes(found: Inference) -> int:
    """Return what the mbarriers of rings, of tiles that are copied once and of multiplications take at most, with the
    address of tensor memory.
    """
    kept = {s.name for s in found.staged.values() if s.loop is None}
    return aligned(8 * (2 * MOST_STAGES * len(stage_names(found)) + len(kept) + 2), 256)


def aligned(size: int, to: int = ALIGNMENT) -> int:
    return -(-size // to) * to


@lru_cache(maxsize=2**14)
def across_bytes(source: Distribution, dimension: int, folded: Distribution) -> int:
    """Return what a reduction across warps needs: a part of each warp for each result; 0 where it stays in a warp."""
    before, behind = (math.prod(size for _, size in of.used("warp", 0, dimension)) for of in (source, folded))
    parts = before // behind
    return 0 if parts == 1 else aligned(4 * parts * folded.shape[0] * folded.shape[1])


@dataclass
class SharedMemoryPlan:
    """Byte offsets. ``shared`` are the tiles that the program asks for. ``scratch`` is where the exchanges of a loop
    begin, or, by None, those outside. ``barriers`` is where mbarriers begin.
    """

    exchanges: Mapping[Place, Mapping[Exchange, int]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    rings: dict[int, int] = field(default_factory=dict)
    scratch: dict[Place, int] = field(default_factory=dict)
    barriers: int = 0

    @classmethod
    def of(
        cls,
        found: Inference,
        staged: Mapping[str, StagedNumbers | BoxedNumbers],
        stages: Mapping[int, int],
        exchanges: Mapping[Place, Mapping[Exchange, int]],
        values: Mapping[str, Value],
    ) -> SharedMemoryPlan:
        """Lay out the shared memory of a schedule.

        Args:
            found: What the program holds where.
            staged: Operands that are copied to shared memory, by name.
            stages: Of the ring of each loop, by its number.
            exchanges: What changes hands where (``scratch.exchanges``).
            values: The schedule's, with the ``shared_bytes`` that its space counts.
        """
        memory = cls(exchanges, barriers=int(values["shared_bytes"]) - barrier_bytes(found))
        base = 0
        for name, numbers in staged.items():
            if numbers.staged.loop is None:
                memory.kept[name] = base
                base += numbers.bytes
        for array in found.trace.shared:
            memory.shared[array.name] = base
            base += shared_tile_bytes(array, str(values[f"layout_{array.name}"]))
        memory.scratch[None] = base
        for loop in found.loops:
            ring = sum(n.bytes for n in staged.values() if n.staged.loop == loop) * stages.get(loop, 1)
            memory.rings[loop] = base
            memory.scratch[loop] = base + ring
            if values.get(EARLY_COPIES):
                memory.scratch[None] = base + ring - ring // stages[loop]
        return memory

    def exchange(self, place: Place, which: Exchange) -> int:
        """Return where an exchange lies. Raises KeyError for one that the space has not counted."""
        _ = self.exchanges[place][which]
        return self.scratch[place]


def stage_names(found: Inference) -> dict[int, str]:
    """Return the parameter of the stages of each loop that has a ring."""
    loops = [loop for loop in found.loops if any(s.loop == loop for s in found.staged.values())]
    return {loop: "stages" if len(loops) == 1 else f"stages_{i + 1}" for i, loop in enumerate(loops)}


def stages_of(found: Inference, values: Mapping[str, Value]) -> dict[int, int]:
    stages = {}
    for loop, name in stage_names(found).items():
        value = values[name]
        assert isinstance(value, int)
        stages[loop] = value
    return stages
