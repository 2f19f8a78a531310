"""Compare every output element with the reference, within the problem's tolerance.

Where the reference is NaN or infinite, the output must be the same. A value that rounds to infinity in the output's
type may be infinite. Where the tolerance is not finite, the output must be the rounded reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.operators.problem import Problem

_CHUNK = 1 << 20  # elements compared at a time: the float64 temporaries stay in the cache


class Check(NamedTuple):
    """Result of a comparison.

    ``worst`` is the largest error over its tolerance: at most 1 if ``ok``, infinite for an unexpected NaN. ``reason``
    names the error, "" if there is none.
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
        problem: Checks the outputs itself, or provides reference and tolerance.
        inputs: Arrays named and shaped as its operands.
        outputs: Arrays named and shaped as its operands, in storage types.
        reference: Expected outputs; None to compute them.
        tolerance: Absolute tolerance per element; None to compute it.
        signed_zeros: If True, -0 is wrong where the reference is +0.

    Returns:
        True if all elements are correct, the worst error over its tolerance, and one line on the first wrong element.

    Raises:
        ValueError: An output that is missing or has another shape or storage type.
    """
    wrong = problem.check_outputs(inputs, outputs)
    if wrong is not None:
        return Check(not wrong, math.inf if wrong else 0.0, wrong)
    if reference is None and tolerance is None:
        reference, tolerance = problem.expected(inputs)
    reference = problem.reference(inputs) if reference is None else reference
    tolerance = problem.tolerance(inputs) if tolerance is None else tolerance
    worst, unchanged = 0.0, problem.kept(inputs)
    for operand in problem.operands():
        if operand.role not in ("output", "inout"):
            continue
        if operand.name not in outputs:
            raise ValueError(f"output {operand.name} is missing")
        found = outputs[operand.name]
        if found.shape != operand.shape or found.dtype != np.dtype(operand.dtype.storage):
            raise ValueError(
                f"output {operand.name} must be {operand.dtype.storage} of shape {operand.shape}, "
                f"not {found.dtype} of shape {found.shape}"
            )
        result = compare(
            operand.name, operand.dtype, found, reference[operand.name], tolerance[operand.name],
            signed_zeros=signed_zeros and operand.dtype.is_float,
        )  # fmt: skip
        if not result.ok:
            return result
        if operand.name in unchanged and (
            changed := _changed(operand.name, found, inputs[operand.name], unchanged[operand.name])
        ):
            return Check(False, math.inf, changed)
        worst = max(worst, result.worst)
    return Check(True, worst)


def _changed(name: str, found: Array, before: Array, unchanged: BoolArray) -> str:
    """Return a message on the first element of ``unchanged`` whose bits changed; "" for none."""
    bits = np.dtype(f"u{found.dtype.itemsize}")
    one, other = (np.ascontiguousarray(a).reshape(found.shape).view(bits) for a in (found, before))
    wrong = (one != other) & unchanged
    if not wrong.any():
        return ""
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    where = [int(i) for i in at]
    return (
        f"{name}{where} has the bits {int(one[at]):#x}, should keep {int(other[at]):#x}; {int(wrong.sum())} of "
        f"{found.size} elements are wrong"
    )


def compare(
    name: str,
    dtype: DType,
    found: Array,
    reference: FloatArray,
    tolerance: FloatArray,
    *,
    signed_zeros: bool = False,
) -> Check:
    """Compare one stored array with its expected values.

    Args:
        name: Name of the operand, for the message.
        dtype: Type of the stored bits.
        found: The stored array.
        reference: Expected values, which broadcast to its shape. 64-bit integers are compared in the stored type.
        tolerance: Absolute tolerance, which broadcasts to its shape.
        signed_zeros: If True, -0 is wrong where the reference is +0.

    Returns:
        The result, as from ``check``.
    """
    shape = found.shape
    flat = np.ascontiguousarray(found).reshape(-1)
    wanted = np.broadcast_to(reference, shape).reshape(-1)
    allowed = np.broadcast_to(tolerance, shape).reshape(-1)
    exact = wanted.dtype.kind in "iu"
    comparable = not signed_zeros and exact == (flat.dtype == wanted.dtype)
    if comparable and np.array_equal(flat if exact else dtype.load(flat), wanted):
        return Check(True, 0.0)
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values, may = dtype.load(flat[part]), allowed[part]
            plain = may.min() > 0.0 and may.max() < math.inf  # nearly always; NaN is neither
            may = may if plain else np.where(np.isfinite(may), may, 0.0)
            error = _apart(flat[part], wanted[part]) if exact else np.abs(values - wanted[part])
            bad = ~(error <= may)  # not (error > may): NaN must be bad
            ratio = error / may if plain else np.where(error == 0, 0.0, error / may)
            suspects = np.flatnonzero(bad)
            if suspects.size:
                same = suspects[_same(dtype, values[suspects], wanted[part][suspects], allowed[part][suspects])]
                bad[same], ratio[same] = False, 0.0
            if signed_zeros:
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


def _apart(one: Array, other: Array) -> FloatArray:
    """Return the distances of 64-bit integers as floats. The difference is computed exactly, and then rounded."""
    high, low = np.maximum(one, other), np.minimum(one, other)
    return (high.view(np.uint64) - low.view(np.uint64)).astype(np.float64)


def _same(
    dtype: DType, found: FloatArray, wanted: FloatArray, allowed: FloatArray
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return a mask of elements that are equal after rounding to ``dtype``, where the tolerance does not decide.

    These are NaN, infinities, values beyond the largest number of ``dtype``, and those without a finite tolerance.
    """
    if dtype.mantissa_bits + 1 >= dtype.bits:  # integers
        return np.zeros(found.shape, dtype=np.bool_)
    bounded = np.isfinite(allowed)
    error = np.where(bounded, allowed, 0.0)
    least, most = (dtype.load(dtype.store(wanted + sign * error)) for sign in (-1.0, 1.0))
    rounded = np.isfinite(wanted) & (np.isinf(found) | ~bounded) & ((found == least) | (found == most))
    result: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (
        (np.isnan(found) & np.isnan(wanted)) | (found == wanted) | rounded
    )
    return result


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
        where: The element's indices.
        value: Its value; an int is shown exactly.
        wanted: Its expected value.
        allowed: Its tolerance.
        wrong: Number of wrong elements.
        total: Number of elements.
    """
    is_whole = isinstance(value, int)
    shown, should = told_apart(value, int(wanted) if is_whole and float(wanted).is_integer() else wanted)
    within = "" if is_whole and allowed == 0 else f" within {allowed:.2g}"
    if math.isinf(allowed) and math.isfinite(wanted):
        within = " but its rounding error has no finite bound: the computation amplifies errors too much"
    return f"{name}{list(where)} is {shown}, should be {should}{within}; {wrong} of {total} elements are wrong"


def told_apart(one: float | int, other: float | int) -> tuple[str, str]:
    """Return two numbers as texts: integers exactly, floats with six digits, or with as many as distinguish them."""
    for digits in range(6, 18):
        texts = [str(v) if isinstance(v, int) else f"{v:.{digits}g}" for v in (one, other)]
        if texts[0] != texts[1]:
            break
    return texts[0], texts[1]
