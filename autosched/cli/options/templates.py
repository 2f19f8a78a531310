"""The option that restricts a command to some kernel templates."""

from typing import Annotated

import typer

TemplateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--template", metavar="NAME", help="Only this kernel template; may be repeated (default: every one that can)."
    ),
]
