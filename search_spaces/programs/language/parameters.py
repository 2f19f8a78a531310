"""Scalar parameters of a tile program, which each launch passes by value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from search_spaces.programs.language.ir import ProgramError

TYPES = ("f32", "i32")
LEAST, MOST = -(2**31), 2**31 - 1
Number = int | float


@dataclass(frozen=True)
class Scalar:
    """A number that each launch passes by value: ``eps=Scalar("f32", 1e-5, low=0.0)``.

    One compiled kernel serves every value. In the traced function, an f32 scalar is a tile whose elements are all
    equal. An i32 scalar is an index: it can be the end of a loop, the start of a window, or an operand in arithmetic
    with tiles. A call with a value outside of the range raises an error. The kernel clamps an i32 to the range, so that
    no access leaves an array.

    Attributes:
        dtype: "f32" or "i32".
        default: The value for tuning, and for calls that do not pass the scalar.
        low: The smallest value. Default: none for f32, 0 for i32.
        high: The largest value. Default: none for f32; required for i32. Verification tries both ends.

    Raises:
        ProgramError: If the type is not f32 or i32, an i32 has no ``high``, or the default is outside of the range.
    """

    dtype: Literal["f32", "i32"]
    default: Number
    low: Number | None = None
    high: Number | None = None

    def __post_init__(self) -> None:
        if self.dtype not in TYPES:
            raise ProgramError(f"invalid type {self.dtype!r} of a scalar: use f32 or i32")
        if self.dtype == "i32" and self.high is None:
            raise ProgramError('an i32 scalar without a largest value: pass high, as in Scalar("i32", 64, high=4096)')
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None and not self._is_number(bound):
                raise ProgramError(
                    f"invalid {name}={bound!r} of a scalar: use a number that {self.dtype} can represent"
                )
        low, high = self.limits
        if low > high:
            raise ProgramError(f"the range {low} to {high} is empty: low must not exceed high")
        self.checked("default", self.default)

    @property
    def limits(self) -> tuple[Number, Number]:
        """The smallest and the largest value."""
        if self.dtype == "i32":
            assert self.high is not None
            return (0 if self.low is None else self.low), self.high
        return (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)

    def checked(self, name: str, value: object) -> Number:
        """Return ``value`` as an int or float. Raises ProgramError if it has a wrong type or is out of range."""
        low, high = self.limits
        if not isinstance(value, int | float) or not self._is_number(value) or not low <= value <= high:
            kind = "whole number" if self.dtype == "i32" else "number"
            raise ProgramError(f"{name} must be a {kind} from {low} to {high}, not {value!r}")
        return int(value) if self.dtype == "i32" else float(value)

    def _is_number(self, value: Number) -> bool:
        if isinstance(value, bool):
            return False
        if self.dtype == "i32":
            return isinstance(value, int | np.integer) and LEAST <= value <= MOST
        return isinstance(value, int | float | np.floating) and (math.isinf(value) or _is_representable(float(value)))

    @property
    def edges(self) -> tuple[Number, ...]:
        """Values that verification tries: the ends of the range, adjacent values, and typical ones."""
        low, high = self.limits
        if self.dtype == "i32":
            numbers: tuple[Number, ...] = (low, high, low + 1, high - 1, (int(low) + int(high)) // 2)
        else:
            numbers = (low, high, 0.0, 1.0, -1.0)
        in_range = (value for value in numbers if low <= value <= high and math.isfinite(value))
        return tuple(dict.fromkeys(in_range))


def _is_representable(value: float) -> bool:
    """Return True if a number does not overflow f32."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(value)))
