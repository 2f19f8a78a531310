"""Which GPU a node of a pretended cluster has: the one that AUTOSCHED_PRETENDED names, where it started."""

import os

from search_spaces.hardware.devices import Device, device

VARIABLE = "AUTOSCHED_PRETENDED"


def pretended() -> Device:
    return device(os.environ.get(VARIABLE, "h200"))
