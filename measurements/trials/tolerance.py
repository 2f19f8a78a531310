"""The one rule for tolerances, wherever somebody gives one: a finite number from 0 up.

An infinite tolerance would accept every result, and NaN none: neither compares anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class ToleranceError(ValueError):
    """A tolerance that compares nothing. The message is one line."""


def checked_tolerance(value: Any, name: str, *, most: float = math.inf) -> float:
    """Return a tolerance as a number.

    Args:
        value: The tolerance.
        name: Its name where it was given, for the message.
        most: It must be smaller.

    Raises:
        ToleranceError: It is not a finite number from 0 up, or not below ``most``.
    """
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < most:
        limit = "" if math.isinf(most) else f" and below {most:g}"
        raise ToleranceError(f"invalid {name} {str(value)[:60]}: a tolerance is a finite number from 0 up{limit}")
    return number


def check_tolerances(given: Sequence[Any] | None) -> None:
    """Raise ToleranceError unless ``given`` is None, or a relative and an absolute tolerance."""
    if given is None:
        return
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ToleranceError(f"invalid tolerance {str(given)[:60]}: write (relative, absolute)")
    for value, kind in zip(given, ("relative", "absolute"), strict=True):
        checked_tolerance(value, f"{kind} tolerance")
