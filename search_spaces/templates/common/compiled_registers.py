"""Estimate of the registers of a kernel before the kernel is compiled.

The attribute ``registers`` of a config counts the kernel's arrays, which is a lower bound. The compiler adds registers
for addresses, loop counters and early loads, up to its register limit.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device, register_limit
from search_spaces.spaces.config import Config


def compiled_registers(config: Config, device: Device, scale: float = 1.0, more: int = 0) -> int:
    """Return the expected registers per thread.

    Args:
        config: Provides the lower bound, ``threads`` and ``min_blocks``.
        device: Limits the registers per thread.
        scale: Factor by which the lower bound is multiplied.
        more: Registers added to the scaled lower bound.
    """
    least, threads, blocks = config.integers("registers", "threads", "min_blocks")
    return max(least, min(int(scale * least) + more, register_limit(device, threads, blocks)))
