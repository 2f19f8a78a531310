"""Errors that a user caused: each becomes one line on stderr and exit status 2, in ``app.main`` and nowhere else."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Exit statuses, beside 0 for done
NO = 1
BAD_INPUT = 2
STOPPED = 130  # by Ctrl-C, as shells have it


class InputError(ValueError):
    """Bad usage or bad input. The message is one sentence that says what is wrong and what to do."""


@contextmanager
def bad_input() -> Iterator[None]:
    """Around code that only reads what the user gave: a ValueError there is the user's, elsewhere it is a bug."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def at_least(flag: str, value: int, least: int) -> int:
    """``value`` if it is large enough. Raises InputError that names the option."""
    if value < least:
        raise InputError(f"{flag} must be at least {least}, got {value}")
    return value


def listed(names: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
