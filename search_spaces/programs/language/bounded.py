"""Arithmetic of the interpreter: float64 values, each with a bound on the error of a correct kernel's value.

Values respect the range of their type: a value that overflows in every kernel is infinite. The bound is 0 for an
infinity or NaN that every correct kernel produces. The bound is infinite if only some correct kernels produce an
infinity or NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from search_spaces.arrays import BoolArray, FloatArray
from search_spaces.hardware.block_scaling import BlockFormat
from search_spaces.hardware.dtypes import F32, SMALLEST, DType
from search_spaces.operators.problem import sum_growth
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ONE_OF_GROUP, PICKS, REDUCTIONS, SCANS, ElementFunction, U

TF32 = 2.0**-10  # relative error of operands in tf32: tcgen05 truncates f32; mma.sync rounds, with half this error
TF32_LEAST = 2.0**-136  # smallest positive tf32: smaller operands may become 0
Bounded = tuple[FloatArray, FloatArray]  # (values, bounds on the absolute errors of the values)
_LARGEST = float(np.finfo(np.float32).max)
_ORDINARY = 2.0**8  # below this magnitude, no type overflows
_SMALL_ERROR = 1.0  # a sum with a term near _LARGEST has a much larger error bound: see ``_summed``
_UNDERFLOW = SMALLEST["f32"]
_ROUNDED = 1 + 2.0**-10  # factor by which rounding may increase a sum of up to 2^14 terms


def certain(
    type_: DType, values: FloatArray, bounds: FloatArray, sure: FloatArray | BoolArray | bool = True
) -> Bounded:
    """Clip values to the range of ``type_``. Where only some kernels overflow, the bounds become infinite.

    Args:
        type_: Type of the values.
        values: The values in float64.
        bounds: Bounds of the finite values; NaN stands for infinite.
        sure: Mask that is only used where ``values`` is infinite or NaN. True if every kernel computes an infinity or
            NaN there.
    """
    largest = _LARGEST if type_ == F32 else _ORDINARY
    # Fast path: no value can overflow. The comparison is False if there is a NaN.
    if type_.is_float and (np.abs(values) + bounds).max(initial=0.0) <= largest:
        return values, bounds
    bounds = np.where(np.isnan(bounds), np.inf, bounds)
    finite = np.isfinite(values)
    bounds = np.where(finite, bounds, np.where(sure, 0.0, np.inf))
    if not type_.is_float:
        return values, bounds
    most = np.abs(values) + bounds
    if not (finite & (most > largest)).any():
        return values, bounds
    with np.errstate(invalid="ignore"):  # infinity minus infinity gives NaN; masks exclude it later
        least = np.abs(values) - bounds
    if type_ == F32:
        beyond, perhaps = finite & (least > _LARGEST), finite & (most > _LARGEST)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            beyond, perhaps = (finite & ~np.isfinite(type_.load(type_.store(x))) for x in (least.clip(0.0), most))
    values = np.where(beyond, np.copysign(np.inf, values), values)
    return values, np.where(beyond, 0.0, np.where(perhaps, np.inf, bounds))


def applied(row: ElementFunction, type_: DType, arguments: Sequence[Bounded]) -> Bounded:
    """Apply an element-wise function to arguments of one shape."""
    numbers, errors = tuple(g[0] for g in arguments), tuple(g[1] for g in arguments)
    values = np.asarray(row.on_numpy(*numbers), dtype=np.float64)
    if not type_.is_float and row.types in ("whole", "numbers"):  # exact if all arguments are exact
        return values, np.where(np.logical_or.reduce([error > 0 for error in errors]), np.inf, 0.0)
    bounds = np.asarray(row.bound(numbers, errors, values))
    if not type_.is_float:
        return values, bounds
    # This addition may be the last one of a long sum whose partial sums overflow in some orders only. Such a sum has
    # large error bounds (``_summed``), so this check is only needed if the bounds are large.
    if row.on_numpy in (np.add, np.subtract) and not (errors[0] + errors[1]).max(initial=0.0) <= _SMALL_ERROR:
        overflows = _summed(errors[0]) + _summed(errors[1]) > _LARGEST
        bounds = np.where(overflows, np.inf, bounds)
    sure: BoolArray | bool = True
    finite = np.isfinite(values)
    if not finite.all() and (indeterminate := ~finite & np.logical_or.reduce([error > 0 for error in errors])).any():
        sure = np.ones(values.shape, dtype=np.bool_)
        for signs in itertools.product((-1.0, 1.0), repeat=len(arguments)):
            other = row.on_numpy(
                *(n[indeterminate] + sign * e[indeterminate] for n, e, sign in zip(numbers, errors, signs, strict=True))
            )
            sure[indeterminate] &= (other == values[indeterminate]) | (
                np.isnan(other) & np.isnan(values[indeterminate])
            )
    return certain(type_, values, bounds + _UNDERFLOW * (bounds > 0), sure)


LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i32": (-(2**31), 2**31 - 1), "e4m3": (-448, 448), "e5m2": (-57344, 57344)}


def cast(type_: DType, value: Bounded) -> Bounded:
    """Return values cast to another type.

    Casts to whole numbers truncate towards zero. Narrow types saturate at their largest number.
    """
    if type_.name not in LIMITS:
        values, bounds = rounded(type_, value)
        # If neither the value nor its bound is finite, some kernels return NaN.
        return certain(type_, values, bounds, np.isfinite(values) | np.isfinite(bounds))
    least, most = LIMITS[type_.name]
    values, bounds = value
    if type_.is_float:
        return certain(F32, *rounded(type_, (np.clip(values, least, most), bounds)))

    def whole(x: FloatArray) -> FloatArray:
        return np.clip(np.trunc(np.where(np.isnan(x), 0.0, x)), least, most)

    rounded_values = whole(values)
    return rounded_values, np.where(
        bounds > 0, np.maximum(whole(values + bounds) - rounded_values, rounded_values - whole(values - bounds)), 0.0
    )


def reduced(operation: ir.ReduceTile, parts: FloatArray, errors: FloatArray, axis: int) -> Bounded:
    """Return the reduction of ``parts`` along ``axis``; bounds hold for any order of the elements."""
    result = np.asarray(REDUCTIONS[operation.kind].on_numpy(parts, axis=axis), dtype=np.float64)
    type_ = operation.result.dtype
    if not type_.is_float:
        if operation.kind in ("add", ONE_OF_GROUP):
            return result, errors.sum(axis)
        if operation.kind in ("maxsi", "minsi"):
            return result, errors.max(axis)
        return result, np.where((errors > 0).any(axis), np.inf, 0.0)
    sure = np.asarray(np.isfinite(errors).all(axis))
    if operation.kind == "add":
        bound = errors.sum(axis) + sum_growth(operation.size) * U * np.abs(parts).sum(axis)
        above, below = (_terms(sign * parts, errors).sum(axis) for sign in (1.0, -1.0))
        return _in_any_order(type_, result, bound, above, below, sure)
    if operation.kind == "mul":
        most, largest, least = (np.asarray(np.prod(x, axis=axis)) for x in _factors(parts, errors))
        bound = most * (1 + U) ** operation.size - np.abs(result) + operation.size * _UNDERFLOW * largest
        return _products_in_any_order(type_, result, bound, largest, least, sure)
    return certain(type_, result, errors.max(axis), sure)


def picked(operation: ir.ReduceTile, elements: Bounded, index: Bounded, axis: int) -> Bounded:
    """Return the indices that argmax or argmin picks along ``axis``, with bounds.

    The bounds include every index that a kernel may pick because of rounding errors.
    """
    (values, errors), (positions, unsure) = elements, index
    sign = PICKS[operation.kind].sign
    nan = np.isnan(values)
    key = np.where(nan, np.inf, sign * values)
    best = key.max(axis, keepdims=True)
    first = nan.any(axis, keepdims=True)
    chosen = np.where(first, nan, key == best)
    smallest = np.where(chosen, positions, np.inf).min(axis)
    indeterminate = np.isinf(errors)
    low, high = np.where(indeterminate, -np.inf, key - errors), np.where(indeterminate, np.inf, key + errors)
    certain_nan = (nan & ~indeterminate).any(axis, keepdims=True)
    near = np.where(certain_nan, nan | indeterminate, high >= low.max(axis, keepdims=True))
    # If the best elements are exact and equal, every kernel picks the first of them.
    near &= ~(chosen & (errors == 0.0))
    bound = np.where(near, np.abs(positions - np.expand_dims(smallest, axis)), 0.0).max(axis)
    return smallest, np.where((unsure > 0).any(axis), np.inf, bound)


def scanned(operation: ir.Scan, argument: Bounded) -> Bounded:
    """Return the running reduction of a tile; bounds hold for any order of the elements."""
    values, errors = (_from_first(operation, x) for x in argument)
    kind, axis, type_ = operation.kind, operation.dimension, operation.result.dtype
    if operation.exclusive:
        start = REDUCTIONS[kind].start
        values, errors = _shifted(values, axis, start), _shifted(errors, axis, 0.0)
    result = np.asarray(SCANS[kind](values, axis=axis), dtype=np.float64)
    count = values.shape[axis]
    if not type_.is_float:
        joined = np.add if kind == "add" else np.maximum
        bound = joined.accumulate(errors, axis=axis)
        bound = np.where((bound > 0) & (kind == "mul"), np.inf, bound)
        result = result.astype(np.int64).astype(np.int32).astype(np.float64)
        return _from_first(operation, result), _from_first(operation, bound)
    sure = np.asarray(np.logical_and.accumulate(np.isfinite(errors), axis=axis))
    if kind == "add":
        bound = np.cumsum(errors, axis=axis) + sum_growth(count) * U * np.cumsum(np.abs(values), axis=axis)
        above, below = (np.cumsum(_terms(sign * values, errors), axis=axis) for sign in (1.0, -1.0))
        bounded = _in_any_order(type_, result, bound, above, below, sure)
    elif kind == "mul":
        most, largest, least = (np.asarray(np.cumprod(x, axis=axis)) for x in _factors(values, errors))
        bound = most * (1 + U) ** count - np.abs(result) + count * _UNDERFLOW * largest
        bounded = _products_in_any_order(type_, result, bound, largest, least, sure)
    else:
        bounded = certain(type_, result, np.maximum.accumulate(errors, axis=axis), sure)
    return _from_first(operation, bounded[0]), _from_first(operation, bounded[1])


def _from_first(operation: ir.Scan, x: FloatArray) -> FloatArray:
    """Return the tile, reversed for a reverse scan, so that the scan starts at the first element."""
    return np.flip(x, operation.dimension) if operation.reverse else x


def _shifted(x: FloatArray, axis: int, start: float) -> FloatArray:
    """Return the elements shifted by one position, starting with ``start``."""
    first = np.full_like(np.take(x, [0], axis), start)
    return np.concatenate([first, np.delete(x, -1, axis)], axis)


def block_scaled(row: BlockFormat, values: Bounded, scales: Bounded, axis: int) -> Bounded:
    """Multiply each number by the scale of its block along ``axis``; numbers and scales are given in stored format."""
    (numbers, errors), (codes, unsure) = values, scales
    if row.element.values > 1:
        numbers = _along_last(numbers, axis, lambda x: row.element.load(x.astype(np.uint8)))
        errors = errors.repeat(row.element.values, axis)
    by = row.scale.load(codes.astype(np.uint8)).repeat(row.block, axis)
    unknown = unsure.repeat(row.block, axis) > 0
    return numbers * by, np.where(unknown, np.inf, errors * np.where(np.isnan(by), 0.0, np.abs(by)))


def _along_last(x: FloatArray, axis: int, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply ``function``, which works along the last axis, to an array along ``axis``."""
    return np.moveaxis(function(np.ascontiguousarray(np.moveaxis(x, axis, -1))), -1, axis)


def product(operation: ir.Mma, left: Bounded, right: Bounded, added: Bounded) -> Bounded:
    """Return ``a @ b + c``; bounds hold for any order of the additions."""
    (a, a_bound), (b, b_bound), (c, c_bound) = left, right, added
    type_ = operation.result.dtype
    if not type_.is_float:
        return certain(type_, a @ b + c, np.abs(a) @ b_bound + a_bound @ (np.abs(b) + b_bound) + c_bound)
    if operation.tf32:
        a_bound, b_bound = (_of_tf32(values, bounds) for values, bounds in (left, right))
    result = a @ b + c
    size = np.abs(a) @ np.abs(b) + np.abs(c)
    bound = np.abs(a) @ b_bound + a_bound @ (np.abs(b) + b_bound) + c_bound
    # a kernel may sum the products of each block separately
    blocks = 0 if operation.scales is None else operation.scales[0].shape[1]
    bound += sum_growth(a.shape[1] + 2 * blocks) * U * size
    bound += np.where(bound > 0, a.shape[1] * _UNDERFLOW, 0.0)
    summed = _summed(c_bound)
    if np.isfinite(size).all() and (size + summed).max(initial=0.0) < _LARGEST / 2:
        return certain(type_, result, bound)
    (infinite_a, unsigned_a), (infinite_b, unsigned_b) = (_parts(*of) for of in ((a, a_bound), (b, b_bound)))
    # If infinity is multiplied by a value of unknown sign, the sign of the product is unknown.
    indeterminate = infinite_a @ unsigned_b + unsigned_a @ infinite_b
    unknown = np.isinf(a_bound).any(axis=1, keepdims=True) | np.isinf(b_bound).any(axis=0, keepdims=True)
    unknown = unknown | np.isinf(c_bound)
    up_a, up_b, down_a, down_b = (
        _terms(sign * values, bounds) for sign in (1.0, -1.0) for values, bounds in ((a, a_bound), (b, b_bound))
    )
    above = up_a @ up_b + down_a @ down_b + _terms(c, c_bound) + summed
    below = up_a @ down_b + down_a @ up_b + _terms(-c, c_bound) + summed
    return _in_any_order(type_, result, bound, above, below, ~unknown & (indeterminate == 0))


def _of_tf32(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return the error bounds of operands rounded or truncated to tf32; they are infinite if a value may overflow."""
    size = np.abs(values) + bounds
    widened = bounds + np.where(size > 0, np.maximum(TF32 * size, TF32_LEAST), 0.0)
    return np.where(np.isfinite(values), np.where(np.abs(values) + widened > _LARGEST, np.inf, widened), bounds)


def _parts(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two 0/1 arrays: 1 where an operand is not finite, and 1 where the sign of the operand is uncertain."""
    return (~np.isfinite(values)).astype(np.float64), ((bounds > 0) & (np.abs(values) <= bounds)).astype(np.float64)


def _terms(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return the largest value that each term may have; 0 for negative terms and for terms that may be infinite."""
    known = np.isfinite(values) & np.isfinite(bounds)
    return np.where(known, np.maximum(values + np.where(known, bounds, 0.0), 0.0), 0.0)


def _factors(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return three arrays of magnitudes, with one element for each factor of a product.

    The product of the first array is an upper limit of the result. The magnitude of a partial product, in any order of
    the factors, is at most the product of the second array and at least the product of the third.
    """
    most = np.abs(values) + bounds
    finite = np.where(np.isfinite(values), most, 1.0)
    least = np.where(np.isfinite(values), np.abs(values) - bounds, 1.0)
    return most, np.maximum(finite, 1.0), np.clip(least, 0.0, 1.0)


def _summed(bounds: FloatArray) -> FloatArray:
    """Return an upper limit of sum(abs(term)) over the terms of a sum, derived from the sum's error bound.

    The error bound of a sum allows for at least 16 roundings of each term (``sum_growth``).
    """
    return np.where(np.isfinite(bounds), bounds / (16 * U), 0.0)


def _in_any_order(
    type_: DType,
    values: FloatArray,
    bounds: FloatArray,
    above: FloatArray,
    below: FloatArray,
    sure: FloatArray | BoolArray | bool,
) -> Bounded:
    """Apply ``certain`` to sums, considering that partial sums may overflow in some order of the terms.

    Args:
        type_: Type of the sums.
        values: The sums in float64.
        bounds: Error bounds of finite sums, including rounding errors.
        above: Upper limit of the sum of the finite positive terms, and so of any partial sum.
        below: Upper limit of the sum of the magnitudes of the negative terms.
        sure: Mask that is only used where ``values`` is infinite or NaN. True if every kernel without overflowing
            partial sums computes an infinity or NaN there.
    """
    up, down = (~(side * _ROUNDED <= _LARGEST) for side in (above, below))
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):  # infinity minus infinity gives NaN; masks exclude it later
        least = np.abs(values) - bounds
    # mask: the sum is infinite in every order
    surely = np.where(values > 0, ~down, ~up) & (~finite | (least > _LARGEST))
    unsure = (up | down) & ~surely & ~np.isnan(values)
    return certain(type_, values, np.where(unsure & finite, np.inf, bounds), np.asarray(sure) & ~unsure)


def _products_in_any_order(
    type_: DType,
    values: FloatArray,
    bounds: FloatArray,
    largest: FloatArray,
    least: FloatArray,
    sure: FloatArray | BoolArray | bool,
) -> Bounded:
    """Apply ``certain`` to products, considering that partial products may overflow in some order of the factors.

    The magnitudes of partial products lie between ``least`` and ``largest``.

    In one order, a partial product may overflow although later factors below 1 make the product finite. Likewise, a
    partial product may underflow although large later factors make the product infinite.
    """
    grows, vanishes = ~(largest * _ROUNDED <= _LARGEST), ~(least > _UNDERFLOW)
    unsure = np.where(np.isfinite(values), grows & (least < 1.0), vanishes) & ~np.isnan(values)
    return certain(type_, values, np.where(unsure & np.isfinite(values), np.inf, bounds), np.asarray(sure) & ~unsure)


def rounded(type_: DType, value: Bounded) -> Bounded:
    """Return the effect of a cast on bounds: values stay unrounded, and bounds grow by the rounding error.

    If even the smallest magnitude that a kernel may compute overflows the type, the value becomes infinity, or NaN if
    the type has no infinity. The bound of an exact value that the type can represent does not grow.
    """
    values, bounds = value
    if type_ == F32 or not type_.is_float:
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(values) + bounds
        least = np.maximum(np.abs(values) - bounds, 0.0)  # smallest magnitude that a kernel's value may have
        nearest = type_.load(type_.store(least))
    beyond = ~np.isfinite(nearest) & np.isfinite(least) & np.isfinite(values)
    # An exact value that the type can represent is not rounded: for example, every e4m3 number is a bf16 number.
    exact = (bounds == 0.0) & (nearest == np.abs(values))
    with_rounding = np.where(exact, 0.0, bounds + type_.unit_roundoff * largest + SMALLEST[type_.name])
    bounds = np.where(beyond, 0.0, np.where(np.isfinite(values), with_rounding, bounds))
    return np.where(beyond, np.copysign(nearest, values), values), bounds
