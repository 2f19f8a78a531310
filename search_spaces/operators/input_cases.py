"""Edge-case inputs that expose errors, each with its reason.

Random inputs are near zero, finite, of both signs and all different. They do not expose a wrong initial value of a
maximum, a lost NaN, or cancellation in a variance. A case generates *lines*. A line has the elements of one reduction,
such as a row of a softmax or of the left matrix of a product. Each operator lists the cases that its kernels must
support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import SMALLEST, DType

# the type is in quotes to avoid the slow import of numpy.random
Lines = Callable[["np.random.Generator", int, int, DType], FloatArray]

# name of the case in which both factors of a product are largest, so that sums are as large as possible
ALL_LARGEST = "all largest"
PATTERNS = "every bit pattern"  # name of the case with every bit pattern of an 8-bit type
EXACT = 2.0**24  # f32 represents all integers up to this value, so smaller sums of integers are exact in any order
# positions at edges of vectors, lanes, warps and tiles
_EDGES = (0, 1, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1023, 1024)
_LARGEST = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float.fromhex("0x1.fffffep127"), "i8": 128.0}
# large values, by type; sums of their squares still fit in f32
_HUGE = {"f16": 60000.0, "bf16": 2.0**50, "f32": 2.0**50, "e4m3": 448.0, "e5m2": 57344.0, "e2m1x2": 6.0}


class InputCase(NamedTuple):
    """Inputs that expose a certain kind of error.

    ``lines(rng, count, length, dtype)`` returns ``count`` lines of real values, which are then rounded to ``dtype``.
    ``reason`` describes the error. If ``everywhere``, a set of lines contains only this case, because one line affects
    other lines.
    """

    name: str
    reason: str
    lines: Lines
    everywhere: bool = False


RANDOM = "random"  # name of the case of random inputs


class StressInputs(NamedTuple):
    """Stored inputs of a problem. Their lines may belong to different cases, which ``cases`` lists."""

    cases: tuple[str, ...]
    inputs: Mapping[str, npt.NDArray[np.generic]]


def positions(rng: np.random.Generator, count: int, length: int) -> npt.NDArray[np.int64]:
    """Return ``count`` positions along a line, at its ends and at edges of vectors, lanes, warps and tiles."""
    near = [p for edge in _EDGES for p in (edge, length - 1 - edge) if 0 <= p < length]
    chosen = np.array(list(dict.fromkeys(near)), dtype=np.int64)
    return np.resize(rng.permutation(chosen), count)


def mixed(
    cases: Sequence[InputCase], rng: np.random.Generator, count: int, length: int, dtype: DType
) -> Iterator[tuple[tuple[str, ...], FloatArray]]:
    """Yield sets of lines until each case has occurred. Most sets combine several cases.

    Args:
        cases: Cases to cover. A case with ``everywhere`` gets a set of lines without other cases.
        rng: Random generator, which distributes cases to lines.
        count: Number of lines of a set.
        length: Number of elements of a line.
        dtype: Storage type of the elements.

    Yields:
        The names of a set's cases, and its lines with the axes [count, length].
    """
    shared = [case for case in cases if not case.everywhere]
    for first in range(0, len(shared), count):
        here = shared[first : first + count]
        of_line = rng.permutation(np.resize(np.arange(len(here)), count))
        lines = np.empty((count, length))
        for i, case in enumerate(here):
            chosen = np.flatnonzero(of_line == i)
            lines[chosen] = case.lines(rng, chosen.size, length, dtype)
        yield tuple(case.name for case in here), lines
    for case in cases:
        if case.everywhere:
            yield (case.name,), case.lines(rng, count, length, dtype)


def whole_lines(lines: FloatArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the lines (along the last axis) that contain only integers.

    Reductions of such lines are exact in any order, if products and sums are at most EXACT.
    """
    with np.errstate(invalid="ignore"):
        whole: npt.NDArray[np.bool_] = (np.isfinite(lines) & (lines == np.rint(lines))).all(-1)
    return whole


def _normal(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    return rng.standard_normal((count, length))


def _put(lines: FloatArray, at: npt.NDArray[np.int64], value: float | FloatArray) -> FloatArray:
    lines[np.arange(len(lines)), at] = value
    return lines


def _alternating(rng: np.random.Generator, count: int) -> npt.NDArray[np.bool_]:
    return np.asarray((np.arange(count) + rng.integers(2)) % 2 == 0)


def _integers(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    values = rng.integers(1, 9, (count, length)) * rng.choice((-1, 1), (count, length))
    return np.asarray(values, dtype=np.float64)


def _negative(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    return np.asarray(-rng.integers(1, 9, (count, length)), dtype=np.float64)


def _minus_infinity(_: np.random.Generator, count: int, length: int, __: DType) -> FloatArray:
    return np.full((count, length), -np.inf)


def _one_finite(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    return _put(np.full((count, length), -np.inf), positions(rng, count, length), -_LARGEST[dtype.name])


def _nan(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    lines = _put(_integers(rng, count, length, dtype), positions(rng, count, length), np.inf)
    lines = _put(lines, positions(rng, count, length), np.nan)
    both = np.copysign(np.nan, np.where(_alternating(rng, count), 1.0, -1.0))
    return _put(lines, positions(rng, count, length), both)


def _infinity(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    lines = _put(_integers(rng, count, length, dtype), positions(rng, count, length), np.inf)
    both = np.where(_alternating(rng, count), np.inf, -np.inf)
    return _put(lines, positions(rng, count, length), both)


def _ties(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    lines = rng.integers(0, 2, (count, length)).astype(np.float64)
    lines[::3] = 1.0  # in every third line, all elements are equal
    return lines


def _zero(_: np.random.Generator, count: int, length: int, __: DType) -> FloatArray:
    return np.zeros((count, length))


def _huge(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    sign = rng.choice((-1.0, 1.0), count)
    return _put(_normal(rng, count, length, dtype), positions(rng, count, length), sign * _HUGE[dtype.name])


def _largest(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    lines = np.where(rng.integers(0, 2, (count, length)) == 0, -_LARGEST[dtype.name], -1.0)
    positive = np.where(_alternating(rng, count), _LARGEST[dtype.name], -_LARGEST[dtype.name])
    return _put(lines, positions(rng, count, length), positive)


def _subnormal(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    return np.asarray(_integers(rng, count, length, dtype) * SMALLEST[dtype.name], dtype=np.float64)


def _far(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    # A few elements are larger than all others by one unit in the last place, so the mean is thousands of deviations
    # from zero.
    base = 2.0 ** (dtype.mantissa_bits + 1) if dtype.bits == 16 else 2.0**14
    above = rng.random((count, length)) < 0.03
    lines = np.asarray(base + 2.0 * above, dtype=np.float64)
    return _put(lines, positions(rng, count, length), base + 2.0)


def _shifted(rng: np.random.Generator, count: int, length: int, dtype: DType) -> FloatArray:
    sign = np.where(_alternating(rng, count), 1.0, -1.0)[:, None]
    near = rng.standard_normal((count, length))
    if dtype.bits == 16:
        # not for f32, where the rounding errors of equal terms would all have the same sign
        near = np.round(2.0 * near)
    return np.asarray(sign * 200.0 + near, dtype=np.float64)


def _rising(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    sign = np.where(_alternating(rng, count), 0.5, -0.5)[:, None]
    rising = sign * np.minimum(np.arange(length), 2.0**11) + 0.25 * rng.random((count, length))
    return np.asarray(rising, dtype=np.float64)


def _apart(rng: np.random.Generator, count: int, length: int, _: DType) -> FloatArray:
    # e^89 overflows f32, and e^-104 is zero. The levels of the lines differ by multiples of 256, so a kernel must
    # subtract each line's own maximum.
    levels = 256.0 * rng.permutation(np.resize(np.arange(-8, 9), count))[:, None]
    lines = levels - np.minimum(0.5 * np.arange(length), 1024.0)
    lines[:, 0] += 200.0
    turned = rng.integers(0, 2, count) == 1
    lines[turned] = lines[turned, ::-1]
    return np.asarray(lines, dtype=np.float64)


INTEGERS = InputCase("integers", "sums are exact, so a missing or doubled term changes the result", _integers)
NEGATIVE = InputCase("negative", "a maximum that starts at zero is too large", _negative)
MINUS_INFINITY = InputCase("minus infinity", "a maximum must start at -infinity, its only identity", _minus_infinity)
ONE_FINITE = InputCase("one finite", "partial results of -infinity must be merged with a finite one", _one_finite)
NAN = InputCase("nan", "NaN propagates through sums and maxima, and argmax is the first NaN, as in numpy", _nan)
INFINITY = InputCase("infinity", "the sum of infinities of opposite signs is NaN", _infinity)
TIES = InputCase("ties", "argmax is the first of equal maxima", _ties)
ZERO = InputCase("zero", "without eps, a sum or a deviation of zero is a divisor", _zero)
HUGE = InputCase(
    "one huge element",
    "accumulators overflow if their type is too narrow, and a missing term changes the result",
    _huge,
)
LARGEST = InputCase(
    "largest finite", "the largest number is not an infinity, and the lowest is not the identity of a maximum", _largest
)
SUBNORMAL = InputCase("subnormal", "conversions must keep subnormal numbers", _subnormal)
FAR = InputCase("far from zero", "a variance computed as the difference of two large squares is inaccurate", _far)
SHIFTED = InputCase("shifted", "exponentials overflow, or are all zero, unless the maximum is subtracted", _shifted)
RISING = InputCase(
    "rising", "either every element is a new maximum or none is, so partial sums are rescaled often or never", _rising
)

APART = InputCase(
    "far apart",
    "exponentials overflow if the maximum misses the first or the last element; all are zero if the maximum "
    "includes an element of another line",
    _apart,
    everywhere=True,
)


def around_eps(eps: float) -> InputCase:
    """Return the case of lines whose mean square is about ``eps``."""
    return InputCase(
        "around eps",
        "eps is half of the sum, so the result changes if a kernel omits eps or adds eps elsewhere",
        lambda rng, count, length, dtype: np.sqrt(eps) * _normal(rng, count, length, dtype),
    )
