"""The decision on persistent blocks: the grid fills the GPU once, and each block computes several tiles.

The decision exists only for programs with ``p.find_tile``. The number of tiles with work is only known on the device,
so the grid has additional, empty tiles. A persistent block skips empty tiles quickly. A producer warp can load operands
of the block's next tile while the other warps store the current tile.
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.choices import Choices
from search_spaces.programs.planning.instructions import in_tensor_memory
from search_spaces.programs.planning.memory import stage_names
from search_spaces.programs.planning.persistent import LAUNCHED, PERSISTENT
from search_spaces.programs.planning.splits import shared_loop
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.matmul.stream_k import workers


def may_persist(choices: Choices) -> bool:
    """Return True if all choices of sizes allow persistent blocks."""
    return all(map(_may_persist, choices.inferences.values()))


def _may_persist(inference: Inference) -> bool:
    """Return True if a program can have persistent blocks.

    The program must use ``p.find_tile``, and its only ring must belong to an outermost loop.
    """
    trace, rings = inference.trace, stage_names(inference)
    finds = any(isinstance(operation, ir.FindTile) for operation in trace.operations)
    outermost = {operation.number for operation in trace.operations if isinstance(operation, ir.Loop)}
    resident = any(staged.loop is None for staged in inference.staged.values())
    return (
        finds
        and len(rings) == 1
        and set(rings) <= outermost
        and not resident
        and not trace.is_dynamic
        and not trace.shared
        and shared_loop(inference) is None
    )


def persistence(choices: Choices) -> tuple[Parameter, ...]:
    """Return the decision on persistent blocks."""
    doc = "whether the grid fills the GPU once, and each block computes several tiles"
    return (ordinal(PERSISTENT, (0, 1), doc, before=0),) if may_persist(choices) else ()


def persistent_attributes(choices: Choices, device: Device) -> tuple[Attribute, ...]:
    """Return the attribute with the number of launched blocks."""
    if not may_persist(choices):
        return ()

    def launched(blocks: IntArray, min_blocks: IntArray, persistent: IntArray) -> IntArray:
        count: IntArray = np.where(persistent > 0, workers(device.sm_count * min_blocks, blocks), blocks)
        return count

    return (Attribute(LAUNCHED, launched, "blocks of the launch"),)


def persistent_rules(choices: Choices) -> tuple[Rule, ...]:
    """Return the validity rules of persistent blocks."""
    if not may_persist(choices):
        return ()

    def why_not(intrinsic: str, persistent: int) -> str | None:
        if persistent and in_tensor_memory(intrinsic):
            return f"{intrinsic} allocates tensor memory for one tile per block, but persistent blocks compute several"
        return None

    return (Rule.refusing("persistent_way", why_not, "persistent blocks accumulate in registers"),)


def persistent_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the pruning rule that allows persistent blocks only if there are more tiles than resident blocks."""
    if not may_persist(choices):
        return ()

    def why_not(blocks: int, min_blocks: int, persistent: int) -> str | None:
        resident = device.sm_count * min_blocks
        if persistent and blocks <= resident:
            return f"{blocks} tiles for {resident} resident blocks: each block has at most one tile"
        return None

    return (Rule.refusing("persistent_tiles", why_not, "persistent blocks have several tiles"),)
