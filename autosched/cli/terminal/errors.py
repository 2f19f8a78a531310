"""Errors that a user caused: ``app.run`` turns each into one line on stderr and exit status 2."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# The largest values that an option takes: what memory holds, and what nobody means
MOST_SAMPLES = 100_000
MOST_TRIALS = 10**9
MOST_WORKERS = 1024
MOST_SEED = 2**31 - 1


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


def within(flag: str, value: int, least: int, most: int) -> int:
    """Return a number if it is neither too small nor too large.

    Args:
        flag: The option, for the error.
        value: What was given.
        least: The smallest that is allowed.
        most: The largest.

    Raises:
        InputError: Names the option and the limit.
    """
    if value < least:
        raise InputError(f"{flag} must be at least {least}, got {shortened(str(value))}")
    if value > most:
        raise InputError(f"{flag} must be at most {most:,}")
    return value


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def shortened(text: str, most: int = 60) -> str:
    """``text``, cut where it is too long for a line of its own."""
    return text if len(text) <= most else text[:most] + "..."
