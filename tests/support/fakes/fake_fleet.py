"""Give each node of a simulated cluster a GPU, named by the variable AUTOSCHED_FAKE_GPU of the node's process."""

import os

from search_spaces.hardware.devices import Device, device

VARIABLE = "AUTOSCHED_FAKE_GPU"


def fake_gpu() -> Device:
    return device(os.environ.get(VARIABLE, "h200"))
