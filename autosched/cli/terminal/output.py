"""Print text: answers to stdout, messages about the run to stderr, and with --json one JSON document to stdout."""

import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from autosched.reporting import formatting
from autosched.reporting.readings import readings
from measurements.files.text import harmless, without_password
from search_spaces.operators.problem import Problem

PIPED_WIDTH = 120  # width in columns of a file or a pipe, unless COLUMNS is set


def stdout_console() -> Console:
    """Return a console on stdout that colours and wraps only on request."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return such a console on stderr."""
    return _console(stderr=True)


class _Console(Console):
    """Console that escapes control sequences, since text may come from untrusted files."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(harmless(text), **options)


def _console(*, stderr: bool) -> Console:
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


def say(sentence: str) -> None:
    """Print one line about the run to stderr."""
    print("autosched: " + " ".join(without_password(harmless(sentence)).split()), file=sys.stderr)


def answer(line: str) -> None:
    """Print one line of the answer to stdout, with control sequences escaped."""
    print(without_password(harmless(line)))


def show_readings(console: Console, problem: Problem) -> None:
    """Print how ambiguous parts of a tile program's listing were read, a line each."""
    for reading in readings(problem):
        console.print(reading, markup=False, style="dim")


def show(console: Console, made: Table) -> None:
    """Print a table. It may be wider than the console, so that no name or number is cut."""
    needed = sum(_least_width(column) for column in made.columns)
    if needed > console.width:
        made.width = needed
    console.print(made, crop=False)


def _least_width(column: Column) -> int:
    texts = [str(text) for text in (column.header, *column.cells)]
    pieces = texts if column.no_wrap else [word for text in texts for word in text.split()]
    return max(map(cell_len, pieces), default=0) + formatting.GAP


@contextmanager
def waiting_told() -> Iterator[None]:
    """Show the library's own log on stderr, such as waiting for a database that another process holds."""
    library, handler = logging.getLogger("measurements"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("autosched: %(message)s"))
    level = library.level
    library.addHandler(handler)
    library.setLevel(logging.INFO)
    try:
        yield
    finally:
        library.setLevel(level)
        library.removeHandler(handler)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document to stdout. Non-finite numbers become the strings "inf", "-inf" and "nan"."""
    print(json.dumps(_finite(document), indent=2, allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return value
