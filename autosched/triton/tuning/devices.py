"""Find the device that Triton would launch on."""

from __future__ import annotations

import triton

from autosched.triton.driver import emulated_launcher
from search_spaces.hardware.devices import Device


def active_device() -> Device:
    """Return the emulated device, or the GPU of this machine if none is emulated.

    Raises ValueError for a GPU that cannot be described, and Triton's error if there is none.
    """
    launcher = emulated_launcher()
    if launcher is not None:
        return launcher.device
    from measurements.runners.cuda.runner import cuda_device

    return cuda_device(triton.runtime.driver.active.get_current_device())
