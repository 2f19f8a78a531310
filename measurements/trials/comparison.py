"""Compare every output element with the reference, within the problem's tolerance.

Every comparison with a tolerance uses ``errors`` to decide which elements are correct. Infinite and NaN values have
special rules:

- If the reference is NaN or infinite, the output must be the same value.
- If the reference plus or minus the tolerance rounds to an infinity in the output's type, the output may be this
  infinity.
- If the reference was itself rounded to infinity, the output may be any value that rounds to infinity.
- If the tolerance is not finite, the output must be the rounded reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.operators.problem import Problem
from search_spaces.operators.sorted_limits import sorted_limits

_CHUNK = 1 << 20  # number of elements compared at a time, few enough that float64 temporaries stay in the CPU cache


class Errors(NamedTuple):
    """Ratio of each element's error to its tolerance, and a mask of wrong elements.

    The ratio is 0 for equal infinities.
    """

    ratio: FloatArray
    wrong: BoolArray


class Check(NamedTuple):
    """Result of a comparison.

    ``worst`` is the largest ratio of an error to its tolerance: at most 1 if ``ok``, infinite for an unexpected NaN.
    ``reason`` describes the first wrong element; it is "" if ``ok``.
    """

    ok: bool
    worst: float
    reason: str = ""


def check(
    problem: Problem,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    reference: Mapping[str, FloatArray] | None = None,
    tolerance: Mapping[str, FloatArray] | None = None,
    signed_zeros: bool = False,
) -> Check:
    """Compare stored ``outputs`` with the reference of ``problem`` within its tolerance.

    Args:
        problem: Problem that checks the outputs itself, or provides their reference and tolerance.
        inputs: Input arrays by operand name.
        outputs: Output arrays by operand name, in storage types.
        reference: Expected outputs; None to compute them.
        tolerance: Absolute tolerance per element; None to compute it.
        signed_zeros: If True, -0 is wrong where the reference is +0.

    Returns:
        Whether all elements are correct, the largest ratio of an error to its tolerance, and one line about the first
        wrong element.

    Raises:
        ValueError: An output is missing, or has a wrong shape or storage type.
    """
    wrong = problem.check_outputs(inputs, outputs)
    if wrong is not None:
        return Check(not wrong, math.inf if wrong else 0.0, wrong)
    if reference is None and tolerance is None:
        reference, tolerance = problem.expected(inputs)
    reference = problem.reference(inputs) if reference is None else reference
    tolerance = problem.tolerance(inputs) if tolerance is None else tolerance
    worst, unchanged = 0.0, problem.unchanged(inputs)
    for operand in problem.operands():
        if operand.role not in ("output", "inout"):
            continue
        if operand.name not in outputs:
            raise ValueError(f"output {operand.name} is missing")
        actual = outputs[operand.name]
        if actual.shape != operand.shape or actual.dtype != np.dtype(operand.dtype.storage):
            raise ValueError(
                f"output {operand.name} must be {operand.dtype.storage} of shape {operand.shape}, "
                f"not {actual.dtype} of shape {actual.shape}"
            )
        wanted, allowed, name = reference[operand.name], tolerance[operand.name], operand.name
        if name in problem.unordered:
            name, actual, wanted, allowed = f"sorted {name}", *_sorted(operand.dtype, actual, wanted, allowed)
        result = compare(
            name, operand.dtype, actual, wanted, allowed, signed_zeros=signed_zeros and operand.dtype.is_float,
            rounded_to=problem.reference_dtype(operand.name),
        )  # fmt: skip
        if not result.ok:
            return result
        if operand.name in unchanged and (
            changed := _changed(operand.name, actual, inputs[operand.name], unchanged[operand.name])
        ):
            return Check(False, math.inf, changed)
        worst = max(worst, result.worst)
    return Check(True, worst)


def _sorted(
    dtype: DType, actual: Array, wanted: FloatArray, allowed: FloatArray
) -> tuple[Array, FloatArray, FloatArray]:
    """Sort the stored elements of a vector and their expected values, and return both with matching tolerances.

    An element without a finite tolerance must equal the rounded reference.
    """
    bounded = np.isfinite(allowed)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.where(bounded, wanted, dtype.load(dtype.store(wanted)))
        lower, upper = sorted_limits(wanted, np.where(bounded, allowed, 0.0))
        same = lower == upper  # also True for equal infinities, whose difference would be NaN
        middle, error = np.where(same, lower, (lower + upper) / 2), np.where(same, 0.0, (upper - lower) / 2)
    return actual[np.argsort(dtype.load(actual), kind="stable")], middle, error


def _changed(name: str, actual: Array, before: Array, unchanged: BoolArray) -> str:
    """Return a message about the first element that must be unchanged but has different bits; "" if there is none."""
    bits = np.dtype(f"u{actual.dtype.itemsize}")
    one, other = (np.ascontiguousarray(a).reshape(actual.shape).view(bits) for a in (actual, before))
    wrong = (one != other) & unchanged
    if not wrong.any():
        return ""
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    where = [int(i) for i in at]
    return (
        f"{name}{where} has the bits {int(one[at]):#x}, but must keep {int(other[at]):#x}; {int(wrong.sum())} of "
        f"{actual.size} elements are wrong"
    )


def compare(
    name: str,
    dtype: DType,
    actual: Array,
    reference: FloatArray,
    tolerance: FloatArray,
    *,
    signed_zeros: bool = False,
    rounded_to: DType | None = None,
) -> Check:
    """Compare one stored array with its expected values.

    Args:
        name: Name of the operand, for the message.
        dtype: Type of the stored bits.
        actual: The stored array.
        reference: Expected values, which are broadcast to the shape of ``actual``. 64-bit integers are compared
            exactly.
        tolerance: Absolute tolerance, which is broadcast to the shape of ``actual``.
        signed_zeros: If True, -0 is wrong where the reference is +0.
        rounded_to: Type to which the reference was rounded; None if it is exact.

    Returns: The result, as ``check`` returns it.
    """
    shape = actual.shape
    flat = np.ascontiguousarray(actual).reshape(-1)
    wanted = np.broadcast_to(reference, shape).reshape(-1)
    allowed = np.broadcast_to(tolerance, shape).reshape(-1)
    exact = _is_exact(wanted)
    comparable = not signed_zeros and exact == (flat.dtype == wanted.dtype)
    if comparable and np.array_equal(flat if exact else dtype.load(flat), wanted):
        return Check(True, 0.0)
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        ratio, bad = errors(dtype, flat[part], wanted[part], allowed[part], rounded_to=rounded_to)
        if signed_zeros:
            values = dtype.load(flat[part])
            zeros = np.flatnonzero(values == 0)
            of_reference = wanted[part][zeros]
            turned = zeros[np.signbit(values[zeros]) & (of_reference == 0) & ~np.signbit(of_reference)]
            bad[turned], ratio[turned] = True, math.inf
        largest = float(ratio.max())
        worst = max(worst, math.inf if math.isnan(largest) else largest)
        count = int(bad.sum())
        if count and first < 0:
            first = start + int(bad.argmax())
        wrong += count
    if not wrong:
        return Check(True, worst)
    value = float(dtype.load(flat[first : first + 1])[0]) if dtype.is_float else flat[first].item()
    where = tuple(int(i) for i in np.unravel_index(first, shape))
    return Check(
        False, worst, error_text(name, where, value, wanted[first].item(), float(allowed[first]), wrong, flat.size)
    )


def errors(
    dtype: DType, actual: Array, wanted: FloatArray, allowed: FloatArray, *, rounded_to: DType | None = None
) -> Errors:
    """Compare stored elements with their expected values.

    Args:
        dtype: Type of the stored bits.
        actual: The stored elements, as a one-dimensional array.
        wanted: Expected values. 64-bit integers are compared exactly.
        allowed: Absolute tolerances.
        rounded_to: Type to which the expected values were rounded; None if they are exact.

    Returns:
        The ratio of each error to its tolerance, and a mask of the wrong elements.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        exact = _is_exact(wanted)
        values = dtype.load(actual)
        # True in most comparisons; False if any tolerance is 0, infinite or NaN
        plain = allowed.size > 0 and allowed.min() > 0.0 and allowed.max() < math.inf
        may = allowed if plain else np.where(np.isfinite(allowed), allowed, 0.0)
        error = _apart(actual, wanted) if exact else np.abs(values - wanted)
        wrong: BoolArray = ~(error <= may)  # not written as error > may, because a NaN must count as wrong
        ratio: FloatArray = error / may if plain else np.where(error == 0, 0.0, error / may)
        suspects = np.flatnonzero(wrong)
        if suspects.size and dtype.mantissa_bits + 1 < dtype.bits:  # the type is a float
            at_suspects = values[suspects], wanted[suspects], allowed[suspects]
            more, still = _at_limits(dtype, *at_suspects, rounded_to)
            right = suspects[~still]
            wrong[right], ratio[right] = False, more[~still]
    return Errors(ratio, wrong)


def _is_exact(wanted: FloatArray) -> bool:
    """Return True for an integer array, whose elements are compared without conversion to floats."""
    return wanted.dtype.kind in "iu"


def _apart(one: Array, other: Array) -> FloatArray:
    """Return the absolute differences of 64-bit integers: computed exactly, then rounded to floats."""
    high, low = np.maximum(one, other), np.minimum(one, other)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


def _at_limits(
    dtype: DType, actual: FloatArray, wanted: FloatArray, allowed: FloatArray, rounded_to: DType | None
) -> Errors:
    """Compare elements whose difference exceeds the tolerance, or whose tolerance is not finite.

    An element is correct in any of these cases:

    - The element and the reference are both NaN, or both the same infinity.
    - The element is an infinity, and the reference plus or minus the tolerance rounds to this infinity.
    - The tolerance is not finite, and the element equals the rounded reference.
    - The reference was rounded to an infinity, and some value that rounds to this infinity is within the tolerance of
      the element.
    """
    bounded = np.isfinite(allowed)
    error = np.where(bounded, allowed, 0.0)
    least, most = (dtype.load(dtype.store(wanted + sign * error)) for sign in (-1.0, 1.0))
    rounded = np.isfinite(wanted) & (np.isinf(actual) | ~bounded) & ((actual == least) | (actual == most))
    right = (np.isnan(actual) & np.isnan(wanted)) | (actual == wanted) | rounded
    ratio = np.zeros(actual.shape)
    if rounded_to is not None:
        below = np.maximum(magnitudes(wanted, rounded_to) - np.copysign(1.0, wanted) * actual, 0.0)
        near = np.isinf(wanted) & bounded & (below <= allowed)
        ratio, right = np.where(near & ~right & (below > 0), below / error, 0.0), right | near
    return Errors(ratio, ~right)


def magnitudes(wanted: FloatArray, rounded_to: DType) -> FloatArray:
    """Return absolute values of rounded values; for an infinity, the smallest number that rounds to infinity."""
    return np.minimum(np.abs(wanted), rounded_to.overflow)


def root_mean_square(values: FloatArray) -> float:
    """Return the root mean square of the finite values, without overflow of their squares; 0 if there are none."""
    sizes = np.abs(values[np.isfinite(values)]).astype(np.float64)
    most = float(sizes.max(initial=0.0))
    return most * math.sqrt(float(np.mean(np.square(sizes / most)))) if most else 0.0


def error_text(
    name: str,
    where: tuple[int, ...],
    value: float | int,
    wanted: float | int,
    allowed: float,
    wrong: int,
    total: int,
) -> str:
    """Return a sentence about the first wrong element.

    Args:
        name: Name of the operand.
        where: Indices of the element.
        value: Value of the element; an int is shown exactly.
        wanted: Expected value of the element.
        allowed: Tolerance of the element.
        wrong: Number of wrong elements.
        total: Number of elements.
    """
    is_whole = isinstance(value, int)
    shown, should = distinct_texts(value, int(wanted) if is_whole and float(wanted).is_integer() else wanted)
    within = "" if is_whole and allowed == 0 else f" within {allowed:.2g}"
    if math.isinf(allowed) and math.isfinite(wanted):
        within = " but the rounding error has no finite bound, because the computation amplifies errors too much"
    return f"{name}{list(where)} is {shown}, should be {should}{within}; {wrong} of {total} elements are wrong"


def distinct_texts(one: float | int, other: float | int) -> tuple[str, str]:
    """Return two numbers as texts.

    Integers are exact. Floats have six digits, or more if the two texts would otherwise be equal.
    """
    for digits in range(6, 18):
        texts = [str(v) if isinstance(v, int) else f"{v:.{digits}g}" for v in (one, other)]
        if texts[0] != texts[1]:
            break
    return texts[0], texts[1]
