"""Shared memory of a schedule: tiles that stay in shared memory, the ring of each loop, and exchanges.

An exchange passes values from thread to thread through shared memory, for example to change a distribution. The
exchanges of a loop lie after the loop's ring. Exchanges outside of loops reuse the memory of the rings. With
``early_copies``, operands of the block's next result are already copied to the ring. Exchanges outside of loops then
only reuse the last stage. A barrier precedes every reuse.
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
Exchange = tuple[int, int] | int | str | None  # key of an exchange: tile shape, id of a result, or name
ALIGNMENT = 128
STAGES = (1, 2, 3, 4, 5)  # candidate numbers of stages of a ring
MANY_STAGES = 8  # additional candidate for the number of stages, for rings with tiles in a narrow type
# name of the attribute that is 1 if copies for a block's next tile start before the current results are stored
EARLY_COPIES = "early_copies"
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
    """Return the layout of an exchanged tile of 4-byte words; ``identity`` if ``text`` does not fit the shape."""
    layout = parse_layout(text, *shape)
    if isinstance(layout, str):
        layout = parse_layout("identity", *shape)
        assert not isinstance(layout, str)
    return layout


def exchange_bytes(text: str, shape: tuple[int, int]) -> int:
    """Return the size in bytes of an exchanged tile of 4-byte words."""
    return aligned(exchange_layout(text, shape).size * 4)


def shared_tile_bytes(array: Array, layout: str) -> int:
    """Return the size in bytes of a shared-memory tile that the program declares."""
    return aligned(exchange_layout(layout, array.matrix).size * array.dtype.bytes, BOX_ALIGNMENT)


def barrier_bytes(inference: Inference) -> int:
    """Return an upper limit of the bytes for mbarriers and for the address of tensor memory.

    Rings, tiles that are copied once, and multiplications have mbarriers.
    """
    names = {s.name for s in inference.staged.values() if s.loop is None}
    products = sum(isinstance(operation, Mma) for operation in inference.definitions.values())
    return aligned(8 * (2 * MANY_STAGES * len(stage_names(inference)) + len(names) + products + 1), 256)


def aligned(size: int, to: int = ALIGNMENT) -> int:
    """Round a size up to a multiple of ``to``."""
    return -(-size // to) * to


@lru_cache(maxsize=2**14)
def across_bytes(source: Distribution, dimension: int, folded: Distribution) -> int:
    """Return the bytes for a reduction across warps: a word per warp and result; 0 if warps reduce separately."""
    before, after = (math.prod(size for _, size in of.used("warp", 0, dimension)) for of in (source, folded))
    parts = before // after
    return 0 if parts == 1 else aligned(4 * parts * folded.shape[0] * folded.shape[1])


@dataclass
class SharedMemoryPlan:
    """Byte offsets in shared memory.

    Attributes:
        shared: Offsets of the tiles that the program declares, by name.
        scratch: Offset of the exchanges, by outermost loop; key None: exchanges outside of loops.
        barriers: Offset of the mbarriers.
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
        """Return the plan of a schedule's shared memory.

        Args:
            inference: The inference of the program.
            staged: Operands that are copied to shared memory, by name.
            stages: Number of stages of each ring, by loop number.
            exchanges: Bytes of each exchange, by outermost loop (``scratch.exchanges``).
            values: Values of the schedule, including the attribute ``shared_bytes``.
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
        """Return the offset of an exchange. Raises KeyError if no memory is reserved for this exchange."""
        _ = self.exchanges[outer_loop][which]
        return self.scratch[outer_loop]


def stage_names(inference: Inference) -> dict[int, str]:
    """Return, by loop number, the name of the parameter with the number of stages of the loop's ring."""
    loops = [loop for loop in inference.loops if any(s.loop == loop for s in inference.staged.values())]
    return {loop: "stages" if len(loops) == 1 else f"stages_{i + 1}" for i, loop in enumerate(loops)}


def stage_counts(inference: Inference, loop: int) -> tuple[int, ...]:
    """Return the numbers of stages that a loop's ring may have.

    Tiles in a narrow type have small stages. With five such stages, too few bytes are in flight to reach the bandwidth
    of DRAM, so more stages are allowed.
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
