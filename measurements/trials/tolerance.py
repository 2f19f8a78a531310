"""Check tolerances, which must be finite numbers of at least 0.

An infinite tolerance would accept every result, and a NaN would accept none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class ToleranceError(ValueError):
    """A tolerance is invalid. The message is one line."""


def checked_tolerance(value: Any, name: str, *, most: float = math.inf) -> float:
    """Check a tolerance and return it as a float.

    Args:
        value: The tolerance.
        name: Name of the option or argument, for the message.
        most: Exclusive upper limit.

    Raises:
        ToleranceError: The value is not a finite number of at least 0 and below ``most``.
    """
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < most:
        limit = "" if math.isinf(most) else f" and below {most:g}"
        raise ToleranceError(f"invalid {name} {str(value)[:60]}: give a finite number of at least 0{limit}")
    return number


def check_tolerances(tolerances: Sequence[Any] | None) -> None:
    """Raise ToleranceError unless ``tolerances`` is None or a pair of a relative and an absolute tolerance."""
    if tolerances is None:
        return
    if isinstance(tolerances, str) or not isinstance(tolerances, Sequence) or len(tolerances) != 2:
        raise ToleranceError(f"invalid tolerance {str(tolerances)[:60]}: write (relative, absolute)")
    for value, kind in zip(tolerances, ("relative", "absolute"), strict=True):
        checked_tolerance(value, f"{kind} tolerance")
