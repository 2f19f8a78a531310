"""Consoles on stdout and stderr, and tables printed on them. Importing rich takes 20 ms."""

import os
import sys
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from autosched.reporting import formatting
from autosched.reporting.readings import readings
from measurements.files.text import harmless
from search_spaces.operators.problem import Problem

PIPED_WIDTH = 120  # width in columns if stdout is a file or a pipe, unless COLUMNS is set


def stdout_console() -> Console:
    """Return a console on stdout, without automatic highlighting and wrapping."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return a console on stderr, without automatic highlighting and wrapping."""
    return _console(stderr=True)


class _Console(Console):
    """Console that escapes control sequences, since text may come from untrusted files."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(harmless(text), **options)


def _console(*, stderr: bool) -> Console:
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


def show_readings(console: Console, problem: Problem) -> None:
    """Print how each ambiguous part of a tile program's listing is interpreted."""
    for reading in readings(problem):
        console.print(reading, markup=False, style="dim")


def show(console: Console, table: Table) -> None:
    """Print a table. The table may be wider than the console, because its cells are not truncated."""
    needed = sum(_least_width(column) for column in table.columns)
    if needed > console.width:
        table.width = needed
    console.print(table, crop=False)


def _least_width(column: Column) -> int:
    texts = [str(text) for text in (column.header, *column.cells)]
    pieces = texts if column.no_wrap else [word for text in texts for word in text.split()]
    return max(map(cell_len, pieces), default=0) + formatting.GAP
