"""The option --device: the GPU for which a command compiles, or which the command describes."""

from typing import Annotated, Any

import typer

from autosched.cli.terminal.errors import InputError
from search_spaces.hardware.devices import DEFAULT_DEVICE, Device, UnknownDevice, all_devices, device

LIST_NOTE = "autosched devices lists them"


def device_option(default: str) -> Any:
    """Return the option ``--device``, with ``default`` in its help text."""
    return typer.Option(
        "--device",
        metavar="D",
        help=f"GPU, such as h100, rtx4090 or t4: {LIST_NOTE} (default: {default}).",
        autocompletion=_names,
    )


def _names(incomplete: str) -> list[str]:
    """Return shell completions for a device name."""
    return [row.name for row in all_devices() if row.name.startswith(incomplete)]


DeviceOption = Annotated[str | None, device_option(f"the GPU of this machine, else {DEFAULT_DEVICE}")]
DEVICE_NOTE = f"Without --device, the GPU of this machine is used, or {DEFAULT_DEVICE} if none is found."


def target(name: str | None) -> Device:
    """Return the device called ``name``. Default: the GPU of this machine, or DEFAULT_DEVICE if there is none.

    Raises:
        InputError: The device is unknown.
    """
    if name is None:
        return detected_gpu() or device(DEFAULT_DEVICE)
    try:
        return device(name)
    except UnknownDevice as error:
        gpu = detected_gpu()
        if gpu is not None and gpu.name == name.lower():
            return gpu
        raise InputError(str(error)) from error


def detected_gpu() -> Device | None:
    """Return the GPU of this machine; None if there is no GPU, or if the device table has no row for it."""
    from measurements.runners.cuda.runner import (
        cuda_available,
        cuda_device,
    )  # imported lazily, because a named device needs no query of the GPU

    if not cuda_available()[0]:
        return None
    try:
        return cuda_device()
    except UnknownDevice:
        return None
