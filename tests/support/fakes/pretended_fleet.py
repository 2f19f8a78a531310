"""Give each node of a simulated cluster a GPU, named by the variable AUTOSCHED_PRETENDED of the node's process."""

import os

from search_spaces.hardware.devices import Device, device

VARIABLE = "AUTOSCHED_PRETENDED"


def pretended() -> Device:
    return device(os.environ.get(VARIABLE, "h200"))
