"""The device's limits on a launch: on resources of a block and of an SM, and on the size of the grid."""

from __future__ import annotations

from search_spaces.hardware.devices import Device, register_limit
from search_spaces.spaces.rules import Rule

MOST_BLOCKS = 2**31 - 1  # largest extent of a grid along x, the only axis that kernels use (CUDA C++ Programming Guide)


def grid_rule(blocks: str = "blocks") -> Rule:
    """Return the rule that a grid has at most MOST_BLOCKS blocks.

    Args:
        blocks: Name of the column with an upper bound of the number of blocks.
    """
    return Rule(
        "grid",
        lambda count: count <= MOST_BLOCKS,
        f"{blocks} is {{count}}, but a grid has at most {MOST_BLOCKS} blocks",
        names={"count": blocks},
    )


def device_rules(device: Device) -> tuple[Rule, ...]:
    """Return the limits of the device as rules.

    The rules use the columns ``threads`` and ``shared_bytes`` (per block), ``registers`` (per thread, a lower bound)
    and ``min_blocks`` (blocks per SM for which the compiler limits registers).
    """
    return (
        Rule(
            "threads",
            lambda threads: threads <= device.max_threads_per_block,
            f"{{threads}} threads exceed the limit of {device.max_threads_per_block} threads per block",
        ),
        Rule(
            "min_blocks",
            lambda threads, min_blocks: threads * min_blocks <= device.max_threads_per_sm,
            f"{{min_blocks}} blocks of {{threads}} threads exceed the limit of {device.max_threads_per_sm} threads "
            "per SM "
            f"of {device.name}",
        ),
        Rule(
            "registers",
            lambda registers, threads, min_blocks: registers <= register_limit(device, threads, min_blocks),
            "about {registers} registers per thread exceed the limit for {threads} threads with {min_blocks} blocks "
            "per SM "
            f"(an SM has {device.registers_per_sm} registers, a thread at most {device.max_registers_per_thread})",
        ),
        Rule(
            "shared_memory",
            lambda shared_bytes, min_blocks: (
                (shared_bytes <= device.shared_per_block)
                & ((shared_bytes + device.reserved_shared_per_block) * min_blocks <= device.shared_per_sm)
            ),
            "{shared_bytes} bytes of shared memory in each of {min_blocks} blocks exceed "
            f"{device.name}'s limit of {device.shared_per_block} per block or {device.shared_per_sm} per SM",
        ),
    )
