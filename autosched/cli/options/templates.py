"""The option that restricts a command to some kernel templates."""

from typing import Annotated

import typer

TemplateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--template",
        metavar="NAME",
        help="Use only this kernel template; may be repeated (default: all that support the problem).",
    ),
]
