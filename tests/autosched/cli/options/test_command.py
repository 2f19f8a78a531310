"""Options that are parsed without typer get the same values as with typer."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand

from autosched.cli.options.command import Command
from autosched.cli.options.problem import whole_number


def parsed_options(cls: type[TyperCommand], arguments: list[str]) -> object:
    """Return the options that a command line passes to its command, or the error message."""
    parsed: dict[str, Any] = {}

    def command(
        name: Annotated[str | None, typer.Option("--name")] = None,
        count: Annotated[int, typer.Option("--count", parser=whole_number)] = 1,
        each: Annotated[list[int] | None, typer.Option("--each", parser=whole_number)] = None,
        texts: Annotated[list[str] | None, typer.Option("--text")] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
        ratio: Annotated[float, typer.Option("--ratio", min=0)] = 1.0,
    ) -> None:
        parsed.update(locals())

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=cls)(command)
    try:
        app(arguments, standalone_mode=False)
    except Exception as error:
        return type(error), getattr(error, "format_message", error.__str__)()
    return {name: value for name, value in parsed.items() if name != "parsed"}


@pytest.mark.parametrize(
    "line",
    (
        "",
        "--name a --count 3 --flag",
        "--each 1 --each 2 --text a --text b",
        "--ratio 2",
        "--ratio -1",
        "--count three",
        "--each 1 --each two",
        "--nmae a",
        "--name",
        "--name a b",
        "--name=--flag --count=-1",
    ),
)
def test_options_are_parsed_as_by_typer(line: str) -> None:
    assert parsed_options(Command, line.split()) == parsed_options(TyperCommand, line.split())


def test_a_quick_verification_needs_no_pydantic_and_no_database() -> None:
    code = (
        "import sys\n"
        "from autosched.cli import main\n"
        "assert main('verify copy --rows 8 --columns 8 --sample 1 --device a100 --json'.split()) == 0\n"
        "print(sorted({'pydantic', 'sqlalchemy', 'measurements.trials.trial'} & set(sys.modules)))\n"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines()[-1] == "[]"
