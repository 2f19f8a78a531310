"""Read the problems of a call log, for all commands that accept call logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import say
from autosched.reporting import formatting
from measurements.store.errors import StoreError
from measurements.store.store import Store
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device

if TYPE_CHECKING:
    from autosched.suites.suite import SuiteMember

LINE_SECONDS = 5.0  # minimum seconds between two progress lines

RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows", metavar="N,N", help="Sizes, such as 1,16,256, of axes that have no fixed size in FlashInfer's traces."
    ),
]


def row_sizes(text: str | None) -> list[int]:
    """Parse the sizes of ``--rows``.

    Raises:
        InputError: The text is not a list of sizes.
    """
    if text is None:
        return []
    if not all(part.isascii() and part.isdigit() and int(part) for part in text.split(",")):
        raise InputError(f"--rows must be sizes such as 1,16,256, not {text}")
    return [int(part) for part in text.split(",")]


def logged_problems(calls: str, chip: Device, rows: Sequence[int]) -> tuple[SuiteMember, ...]:
    """Return the problems of a log that kernels support. Print the number of skipped lines by reason to stderr.

    Args:
        calls: Path of the log.
        chip: Device that the kernels are for.
        rows: Sizes of axes that have no fixed size in FlashInfer's traces.

    Returns:
        The problems, with the number of calls as their weight.

    Raises:
        InputError: The log has no problem that kernels support.
        CallLogError: The file is not a call log.
        OSError: The file cannot be read.
    """
    from autosched.suites.logged_calls import read_calls  # imported lazily, because suites import the search

    read = read_calls(calls, rows)
    members, skipped = [], read.skipped.copy()
    for member in read.members:
        try:
            templates_for(member.problem, chip)
        except ValueError as error:
            skipped[str(error)] += 1
        else:
            members.append(member)
    for why, number in skipped.most_common():
        say(f"{formatting.plural(number, 'line')} of {calls} left out: {why}")
    if not members:
        raise InputError(f"{calls} has no problem that kernels for {chip.name} support")
    return tuple(members)


@contextmanager
def existing_store(db: str) -> Iterator[Store | None]:
    """Open a database for reading within the block; yield None if it does not exist or cannot be read."""
    try:
        store = Store.open(db, create=False)
    except StoreError:
        store = None
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def estimate_progress(number: int) -> Callable[[int], None]:
    """Return a callback that prints progress to stderr, at most every LINE_SECONDS.

    Args:
        number: Total number of estimates.
    """
    last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            say(f"estimating what tuning saves: {done} of {formatting.plural(number, 'problem')}")

    return tell
