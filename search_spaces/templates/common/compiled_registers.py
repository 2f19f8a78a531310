"""Registers that a compiled kernel is expected to take, before it is compiled.

The attribute ``registers`` of a config is what its arrays need, a lower estimate; the compiler adds addresses, loop
counters and what it loads early, as far as it may.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device, register_limit
from search_spaces.spaces.config import Config


def compiled_registers(config: Config, device: Device, scale: float = 1.0, more: int = 0) -> int:
    """Return the registers that a thread is expected to get.

    Args:
        config: Has the lower estimate, ``threads`` and ``min_blocks``.
        device: Limits what these leave to a thread.
        scale: Of the lower estimate.
        more: Beside it.
    """
    least, threads, blocks = config.integers("registers", "threads", "min_blocks")
    return max(least, min(int(scale * least) + more, register_limit(device, threads, blocks)))
