"""Where text goes: answers to stdout, everything about the run to stderr, one JSON document to stdout with --json."""

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

PIPED_WIDTH = 120  # columns of a file or a pipe, unless COLUMNS says otherwise


def stdout_console() -> Console:
    """Return a console on stdout that colours and wraps nothing but what the caller asks for."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return the same on stderr."""
    return _console(stderr=True)


class _Console(Console):
    """A console on which no text acts on the terminal: what it prints may come from a file of a stranger."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(harmless(text), **options)


def _console(*, stderr: bool) -> Console:
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


def say(sentence: str) -> None:
    """One line about the run on stderr."""
    print("autosched: " + " ".join(without_password(harmless(sentence)).split()), file=sys.stderr)


def answer(line: str) -> None:
    """One line of the answer on stdout; what it names may come from a stranger."""
    print(without_password(harmless(line)))


def show_readings(console: Console, problem: Problem) -> None:
    """Print what was read of a tile program's listing in one way where others are possible, a line each."""
    for reading in readings(problem):
        console.print(reading, markup=False, style="dim")


def show(console: Console, made: Table) -> None:
    """Print a table. Where its words need more than the console's width it is wider: no name and no number is cut."""
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
    """Show on stderr what the library logs of itself: that a database held by another process is waited for."""
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
    """Exactly one JSON document on stdout. Numbers that JSON has none for become the texts "inf", "-inf" and "nan"."""
    print(json.dumps(_finite(document), indent=2, allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return value
