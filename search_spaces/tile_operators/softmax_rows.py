"""Shared code of the attention tile programs: exponentials relative to a running maximum."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log2
from typing import Any

LOG2_E = log2(2.718281828459045)


def exponents(p: Any, scale: float) -> Callable[[Any, Any], Any]:
    """Return a function of x and maximum: e^(scale * (x - maximum)), or 0 where both are -infinity."""

    def exponent(x: Any, peak: Any) -> Any:
        return p.exp2((x - p.where(peak == -inf, 0.0, peak)) * (scale * LOG2_E))

    return exponent
