"""Which device a command is about."""


from typing import Annotated

import typer

from autosched.cli.errors import bad_input
from search_spaces.devices import DEVICES, Device, device

DEFAULT_DEVICE = "h200"  # where nothing is named and no GPU answers

DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="D", help=f"GPU: {', '.join(d.name for d in DEVICES)}."),
]


def named_device(name: str | None) -> Device:
    """The row called ``name``, or the default row. Raises InputError that lists the rows."""
    with bad_input():
        return device(name or DEFAULT_DEVICE)
