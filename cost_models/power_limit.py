"""Clock of a GPU within its power limit, which a launch of long duration keeps: estimated times are sustained ones.

Let ``u`` be the fraction of time for which tensor cores are busy, plus MEMORY_POWER times those of DRAM and L2. The
clock is at most ``sustained_clock_hz / u^(1/3)``, since dynamic power is proportional to the clock and the square of
the voltage, which rises with the clock.
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device

MEMORY_POWER = 0.1  # peak power of DRAM and of L2, each relative to that of tensor cores: an assumption


def slowdown(device: Device, multiplying: FloatArray, moving: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the highest clock over the sustained clock of each launch, at least 1.

    Args:
        device: The GPU. If its ``sustained_clock_hz`` is unknown, the slowdown is 1.
        multiplying: Seconds that tensor cores would take at their peak, since every flop takes the same energy.
        moving: Seconds that DRAM and L2 would take at their peaks, added.
        seconds: Time at the highest clock.
    """
    if not device.sustained_clock_hz:
        return np.ones_like(seconds)
    limit = (device.sustained_clock_hz / device.tensor_clock_hz) ** 3
    slowed: FloatArray = np.maximum(np.cbrt((multiplying + MEMORY_POWER * moving) / seconds / limit), 1.0)
    return slowed
