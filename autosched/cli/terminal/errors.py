"""Errors caused by the user. ``app.run`` prints each as one line on stderr and returns exit status 2."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Maximum values of options. Larger values would exceed the memory, or are mistakes.
MOST_SAMPLES = 100_000
MOST_TRIALS = 10**9
MOST_WORKERS = 1024
MOST_SEED = 2**31 - 1


class InputError(ValueError):
    """Invalid usage or input. The message is one sentence that names the problem and the remedy."""


@contextmanager
def bad_input() -> Iterator[None]:
    """Convert a ValueError of the enclosed code to an InputError. Enclose only code that reads user input."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def within(flag: str, value: int, least: int, most: int) -> int:
    """Return a number if it is within its limits.

    Args:
        flag: Name of the option, for the error message.
        value: Value of the option.
        least: Smallest allowed value.
        most: Largest allowed value.

    Raises:
        InputError: The value is out of its limits. The message names the option and the limit.
    """
    if value < least:
        raise InputError(f"{flag} must be at least {least}, got {shortened(str(value))}")
    if value > most:
        raise InputError(f"{flag} must be at most {most:,}")
    return value


def listed(names: Sequence[str], last: str = "and") -> str:
    """Join names as ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def shortened(text: str, most: int = 60) -> str:
    """Return ``text``, cut to at most ``most`` characters."""
    return text if len(text) <= most else text[:most] + "..."
