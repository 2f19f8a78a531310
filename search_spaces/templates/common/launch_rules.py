"""The limits on the block and the grid of a launch, the same for every template."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.rules import Rule

MOST_BLOCKS = 2**31 - 1  # of a grid along x, the only axis that kernels use (CUDA C++ Programming Guide)


def grid_rule(needs: tuple[str, ...], blocks: Callable[[Columns], IntArray]) -> Rule:
    """A grid has at most MOST_BLOCKS ``blocks``, which follow from the columns in ``needs``."""
    return Rule(
        "grid",
        needs,
        lambda c: blocks(c) <= MOST_BLOCKS,
        lambda v: (
            f"the grid has more than the {MOST_BLOCKS} blocks that a launch may have "
            f"with {', '.join(f'{name} = {v[name]}' for name in needs)}"
        ),
    )


def device_rules(device: Device) -> tuple[Rule, ...]:
    """Rules over the columns ``threads`` and ``shared_bytes`` (of a block), ``registers`` (of a thread, a lower
    estimate) and ``min_blocks`` (blocks per SM that the compiler limits registers for)."""

    def register_limit(c: Columns) -> IntArray:
        # Registers are allotted to warps in units; a warp's share limits its threads.
        unit = device.register_allocation_unit
        warps = c["threads"] // device.warp_size * c["min_blocks"]
        share: IntArray = device.registers_per_sm // np.maximum(warps, 1) // unit * unit // device.warp_size
        return share.clip(max=device.max_registers_per_thread)

    return (
        Rule(
            "threads",
            ("threads",),
            lambda c: c["threads"] <= device.max_threads_per_block,
            lambda v: f"{v['threads']} threads exceed the {device.max_threads_per_block} of a block",
        ),
        Rule(
            "min_blocks",
            ("threads", "min_blocks"),
            lambda c: c["threads"] * c["min_blocks"] <= device.max_threads_per_sm,
            lambda v: (
                f"{v['min_blocks']} blocks of {v['threads']} threads exceed the {device.max_threads_per_sm} of an "
                f"SM of {device.name}"
            ),
        ),
        Rule(
            "registers",
            ("registers", "threads", "min_blocks"),
            lambda c: c["registers"] <= register_limit(c),
            lambda v: (
                f"about {v['registers']} registers a thread exceed what {v['threads']} threads can have with "
                f"{v['min_blocks']} blocks per SM (of {device.registers_per_sm}, each thread at most "
                f"{device.max_registers_per_thread})"
            ),
        ),
        Rule(
            "shared_memory",
            ("shared_bytes", "min_blocks"),
            lambda c: (
                (c["shared_bytes"] <= device.shared_per_block)
                & ((c["shared_bytes"] + device.reserved_shared_per_block) * c["min_blocks"] <= device.shared_per_sm)
            ),
            lambda v: (
                f"{v['shared_bytes']} bytes of shared memory in each of {v['min_blocks']} blocks exceed "
                f"{device.name}'s {device.shared_per_block} a block or {device.shared_per_sm} an SM"
            ),
        ),
    )
