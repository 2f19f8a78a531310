"""Clock of a GPU under its power limit. Estimated times assume the clock that the GPU sustains under continuous load.

Let ``u`` be the fraction of time for which tensor cores are busy, plus MEMORY_POWER times the fractions for which DRAM
and L2 are busy. The clock is at most ``sustained_clock_hz / u^(1/3)``: dynamic power is proportional to the clock and
to the square of the voltage, and the voltage rises with the clock.
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device

MEMORY_POWER = 0.1  # peak power of DRAM, and also of L2, relative to the peak power of tensor cores: an assumption


def slowdown(device: Device, multiplying: FloatArray, moving: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the ratio of the highest clock to the sustained clock of each launch, at least 1.

    Args:
        device: The GPU. If its ``sustained_clock_hz`` is unknown, the slowdown is 1.
        multiplying: Seconds that tensor cores would take at their peak rate. Every flop is assumed to take the same
            energy.
        moving: Sum of the seconds that DRAM and L2 would take at their peak rates.
        seconds: Time of the launch at the highest clock.
    """
    if not device.sustained_clock_hz:
        return np.ones_like(seconds)
    limit = (device.sustained_clock_hz / device.tensor_clock_hz) ** 3
    slowed: FloatArray = np.maximum(np.cbrt((multiplying + MEMORY_POWER * moving) / seconds / limit), 1.0)
    return slowed
