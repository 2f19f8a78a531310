"""Shared memory of a schedule: resident tiles, the ring of each loop, and memory of exchanges.

The exchanges of a loop lie after its ring. Exchanges outside of loops reuse the memory of the rings. If a ring already
receives the first tiles of the block's next part, they reuse its last stage only. A barrier precedes every reuse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.ir import Array, Mma
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.instructions import BOX_ALIGNMENT
from search_spaces.programs.planning.staging import StagedNumbers
from search_spaces.spaces.parameters import Value

OuterLoop = int | None  # the outermost loop around an exchange, or None outside of loops
Exchange = tuple[int, int] | int | str | None  # key of an exchange: shape of a tile, result of a reduction, or name
ALIGNMENT = 128
STAGES = (1, 2, 3, 4, 5)  # choices for a ring
MANY_STAGES = 8  # one more choice for a ring with numbers that are stored in few bytes
EARLY_COPIES = "early_copies"  # 1 if a ring is filled for a block's next tile during the store of results
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
    """Return the layout of a tile of 4-byte words in an exchange; ``identity`` if ``text`` does not fit the shape."""
    layout = parse_layout(text, *shape)
    if isinstance(layout, str):
        layout = parse_layout("identity", *shape)
        assert not isinstance(layout, str)
    return layout


def exchange_bytes(text: str, shape: tuple[int, int]) -> int:
    """Return the bytes of a tile of 4-byte words in an exchange."""
    return aligned(exchange_layout(text, shape).size * 4)


def shared_tile_bytes(array: Array, layout: str) -> int:
    """Return the bytes of one of the program's own tiles in shared memory."""
    return aligned(exchange_layout(layout, array.matrix).size * array.dtype.bytes, BOX_ALIGNMENT)


def barrier_bytes(inference: Inference) -> int:
    """Return an upper bound of the bytes of mbarriers and of the address of tensor memory.

    There are mbarriers for rings, for tiles that are copied once and for multiplications.
    """
    names = {s.name for s in inference.staged.values() if s.loop is None}
    products = sum(isinstance(operation, Mma) for operation in inference.definitions.values())
    return aligned(8 * (2 * MANY_STAGES * len(stage_names(inference)) + len(names) + products + 1), 256)


def aligned(size: int, to: int = ALIGNMENT) -> int:
    """Round a size up to a multiple of ``to``."""
    return -(-size // to) * to


@lru_cache(maxsize=2**14)
def across_bytes(source: Distribution, dimension: int, folded: Distribution) -> int:
    """Return the bytes for a reduction across warps: one part per warp and result; 0 if it stays within warps."""
    before, after = (math.prod(size for _, size in of.used("warp", 0, dimension)) for of in (source, folded))
    parts = before // after
    return 0 if parts == 1 else aligned(4 * parts * folded.shape[0] * folded.shape[1])


@dataclass
class SharedMemoryPlan:
    """Byte offsets in shared memory.

    Attributes:
        shared: The program's own tiles.
        scratch: Start of the exchanges, by loop; key None: exchanges outside of loops.
        barriers: Start of the mbarriers.
    """

    exchanges: Mapping[OuterLoop, Mapping[Exchange, int]] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    rings: dict[int, int] = field(default_factory=dict)
    scratch: dict[OuterLoop, int] = field(default_factory=dict)
    barriers: int = 0

    @classmethod
    def of(
        cls,
        inference: Inference,
        staged: Mapping[str, StagedNumbers | BoxedNumbers],
        stages: Mapping[int, int],
        exchanges: Mapping[OuterLoop, Mapping[Exchange, int]],
        values: Mapping[str, Value],
    ) -> SharedMemoryPlan:
        """Lay out the shared memory of a schedule.

        Args:
            inference: The inference of the program.
            staged: Operands that are copied to shared memory, by name.
            stages: Number of stages of each ring, by loop number.
            exchanges: Bytes of each exchange, by the loop around it (``scratch.exchanges``).
            values: Values of the schedule, including the ``shared_bytes`` that its space counts.
        """
        memory = cls(exchanges, barriers=int(values["shared_bytes"]) - barrier_bytes(inference))
        base = 0
        for name, numbers in staged.items():
            if numbers.staged.loop is None:
                memory.resident[name] = base
                base += numbers.bytes
        for array in inference.trace.shared:
            memory.shared[array.name] = base
            base += shared_tile_bytes(array, str(values[f"layout_{array.name}"]))
        memory.scratch[None] = base
        for loop in inference.loops:
            ring = sum(n.bytes for n in staged.values() if n.staged.loop == loop) * stages.get(loop, 1)
            memory.rings[loop] = base
            memory.scratch[loop] = base + ring
            if values.get(EARLY_COPIES):
                memory.scratch[None] = base + ring - ring // stages[loop]
        return memory

    def exchange(self, outer_loop: OuterLoop, which: Exchange) -> int:
        """Return the offset of an exchange. Raises KeyError if the space has not reserved memory for it."""
        _ = self.exchanges[outer_loop][which]
        return self.scratch[outer_loop]


def stage_names(inference: Inference) -> dict[int, str]:
    """Return the name of the parameter for each ring's number of stages, by loop number."""
    loops = [loop for loop in inference.loops if any(s.loop == loop for s in inference.staged.values())]
    return {loop: "stages" if len(loops) == 1 else f"stages_{i + 1}" for i, loop in enumerate(loops)}


def stage_counts(inference: Inference, loop: int) -> tuple[int, ...]:
    """Return the choices for the number of stages of a loop's ring.

    Stages with numbers that are stored in few bytes, and converted in registers, are small. Then five of them are too
    few bytes in flight to reach the bandwidth of DRAM.
    """
    small = any(s.loop == loop and s.converted for s in inference.staged.values())
    return (*STAGES, MANY_STAGES) if small else STAGES


def stages_of(inference: Inference, values: Mapping[str, Value]) -> dict[int, int]:
    """Return the number of stages of each ring, by loop number."""
    stages = {}
    for loop, name in stage_names(inference).items():
        value = values[name]
        assert isinstance(value, int)
        stages[loop] = value
    return stages
