"""Arithmetic of the interpreter: values in float64, each with how far a kernel's may be from it.

Values have the range of their type: what surely exceeds it is infinite. An infinity or NaN that every kernel gives has
the bound 0. Where a kernel may give one and the reference does not, or the other way round, the bound is infinite.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from search_spaces.arrays import BoolArray, FloatArray
from search_spaces.hardware.dtypes import F32, SMALLEST, DType
from search_spaces.operators.problem import sum_growth
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ONE_OF_GROUP, PICKS, REDUCTIONS, SCANS, ElementFunction, U

TF32 = 2.0**-11  # unit roundoff
Bounded = tuple[FloatArray, FloatArray]  # values, and how far a kernel's may be from them
_LARGEST = float(np.finfo(np.float32).max)
_ORDINARY = 2.0**8  # a number of every type
_UNDERFLOW = SMALLEST["f32"]


def certain(
    type_: DType, values: FloatArray, bounds: FloatArray, sure: FloatArray | BoolArray | bool = True
) -> Bounded:
    """Return values within the range of ``type_``, and bounds that are infinite where only some kernels leave it.

    Args:
        type_: Of the values.
        values: As float64 computes them.
        bounds: Of finite values; NaN stands for infinite.
        sure: Where a value that is not finite is one in every kernel.
    """
    largest = _LARGEST if type_ == F32 else _ORDINARY
    if type_.is_float and np.max(np.abs(values) + bounds, initial=0.0) <= largest:  # no NaN, and nearly always
        return values, bounds
    bounds = np.where(np.isnan(bounds), np.inf, bounds)
    finite = np.isfinite(values)
    bounds = np.where(finite, bounds, np.where(sure, 0.0, np.inf))
    if not type_.is_float:
        return values, bounds
    least, most = np.abs(values) - bounds, np.abs(values) + bounds
    if type_ == F32:
        beyond, perhaps = finite & (least > _LARGEST), finite & (most > _LARGEST)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            beyond, perhaps = (finite & ~np.isfinite(type_.load(type_.store(x))) for x in (least.clip(0.0), most))
    values = np.where(beyond, np.copysign(np.inf, values), values)
    return values, np.where(beyond, 0.0, np.where(perhaps, np.inf, bounds))


def applied(row: ElementFunction, type_: DType, given: Sequence[Bounded]) -> Bounded:
    """Return an element-wise function of values of one shape."""
    numbers, errors = tuple(g[0] for g in given), tuple(g[1] for g in given)
    values = np.asarray(row.on_numpy(*numbers), dtype=np.float64)
    if not type_.is_float and row.types in ("whole", "numbers"):  # exact, of numbers that are
        return values, np.where(np.logical_or.reduce([error > 0 for error in errors]), np.inf, 0.0)
    bounds = np.asarray(row.bound(numbers, errors, values))
    if not type_.is_float:
        return values, bounds
    sure = np.ones(values.shape, dtype=np.bool_)
    vague = ~np.isfinite(values) & np.logical_or.reduce([error > 0 for error in errors])
    if vague.any():
        for signs in itertools.product((-1.0, 1.0), repeat=len(given)):
            other = row.on_numpy(
                *(n[vague] + sign * e[vague] for n, e, sign in zip(numbers, errors, signs, strict=True))
            )
            sure[vague] &= (other == values[vague]) | (np.isnan(other) & np.isnan(values[vague]))
    return certain(type_, values, bounds + _UNDERFLOW * (bounds > 0), sure)


LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i32": (-(2**31), 2**31 - 1), "e4m3": (-448, 448), "e5m2": (-57344, 57344)}


def cast(type_: DType, value: Bounded) -> Bounded:
    """Return a cast: whole numbers are cut towards zero, and narrow types hold their largest number in place of what is
    beyond."""
    if type_.name not in LIMITS:
        return certain(type_, *rounded(type_, value))
    least, most = LIMITS[type_.name]
    values, bounds = value
    if type_.is_float:
        return certain(F32, *rounded(type_, (np.clip(values, least, most), bounds)))

    def whole(x: FloatArray) -> FloatArray:
        return np.clip(np.trunc(np.where(np.isnan(x), 0.0, x)), least, most)

    found = whole(values)
    return found, np.where(bounds > 0, np.maximum(whole(values + bounds) - found, found - whole(values - bounds)), 0.0)


def reduced(operation: ir.ReduceTile, parts: FloatArray, errors: FloatArray, axis: int) -> Bounded:
    """Return the groups of ``parts`` along ``axis`` joined, in any order."""
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
        sizes = np.abs(parts)
        bound = errors.sum(axis) + sum_growth(operation.size) * U * sizes.sum(axis)
        largest = np.where(np.isfinite(parts), sizes + errors, 0.0).sum(axis)
        return _in_any_order(type_, result, bound, largest, sure)
    if operation.kind == "mul":
        largest = np.prod(np.abs(parts) + errors, axis=axis)
        bound = largest * (1 + U) ** operation.size - np.abs(result) + operation.size * _UNDERFLOW
        return _in_any_order(type_, result, bound, np.where(np.isfinite(largest), largest, np.inf), sure)
    return certain(type_, result, errors.max(axis), sure)


def picked(operation: ir.ReduceTile, elements: Bounded, index: Bounded, axis: int) -> Bounded:
    """Return the indices of the elements that are picked along ``axis``, and how far another one's may be that rounding
    brings before it."""
    (values, errors), (places, unsure) = elements, index
    sign = PICKS[operation.kind].sign
    nan = np.isnan(values)
    key = np.where(nan, np.inf, sign * values)
    best = key.max(axis, keepdims=True)
    first = nan.any(axis, keepdims=True)
    chosen = np.where(first, nan, key == best)
    found = np.where(chosen, places, np.inf).min(axis)
    vague = np.isinf(errors)
    low, high = np.where(vague, -np.inf, key - errors), np.where(vague, np.inf, key + errors)
    certain_nan = (nan & ~vague).any(axis, keepdims=True)
    near = np.where(certain_nan, nan | vague, high >= low.max(axis, keepdims=True))
    near &= ~(chosen & (errors == 0.0))  # of equal elements that are exact, the least index is certain
    bound = np.where(near, np.abs(places - np.expand_dims(found, axis)), 0.0).max(axis)
    return found, np.where((unsure > 0).any(axis), np.inf, bound)


def scanned(operation: ir.Scan, given: Bounded) -> Bounded:
    """Return what is joined up to each element of a tile, in any order."""
    values, errors = (_from_first(operation, x) for x in given)
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
        sizes = np.abs(values)
        bound = np.cumsum(errors, axis=axis) + sum_growth(count) * U * np.cumsum(sizes, axis=axis)
        largest = np.cumsum(np.where(np.isfinite(values), sizes + errors, 0.0), axis=axis)
        found = _in_any_order(type_, result, bound, largest, sure)
    elif kind == "mul":
        largest = np.cumprod(np.maximum(np.abs(values) + errors, 1.0), axis=axis)  # of any neighbours, at most
        most = np.cumprod(np.abs(values) + errors, axis=axis)
        bound = most * (1 + U) ** count - np.abs(result) + count * _UNDERFLOW * np.maximum(largest, 1.0)
        found = _in_any_order(type_, result, bound, np.where(np.isfinite(largest), largest, np.inf), sure)
    else:
        found = certain(type_, result, np.maximum.accumulate(errors, axis=axis), sure)
    return _from_first(operation, found[0]), _from_first(operation, found[1])


def _from_first(operation: ir.Scan, x: FloatArray) -> FloatArray:
    """Return the tile such that what is joined first comes first."""
    return np.flip(x, operation.dimension) if operation.reverse else x


def _shifted(x: FloatArray, axis: int, start: float) -> FloatArray:
    """Return the elements one further on, with ``start`` in front."""
    first = np.full_like(np.take(x, [0], axis), start)
    return np.concatenate([first, np.delete(x, -1, axis)], axis)


def product(operation: ir.Mma, left: Bounded, right: Bounded, added: Bounded) -> Bounded:
    """Return ``a @ b + c``, added up in any order."""
    (a, a_bound), (b, b_bound), (c, c_bound) = left, right, added
    type_ = operation.result.dtype
    if not type_.is_float:
        return certain(type_, a @ b + c, np.abs(a) @ b_bound + a_bound @ (np.abs(b) + b_bound) + c_bound)
    if operation.tf32:
        a_bound, b_bound = (_of_tf32(values, bounds) for values, bounds in (left, right))
    result = a @ b + c
    size = np.abs(a) @ np.abs(b) + np.abs(c)
    bound = np.abs(a) @ b_bound + a_bound @ (np.abs(b) + b_bound) + c_bound
    bound += sum_growth(a.shape[1]) * U * size
    bound += np.where(bound > 0, a.shape[1] * _UNDERFLOW, 0.0)
    if np.isfinite(size).all() and size.max(initial=0.0) < _LARGEST / 2:
        return certain(type_, result, bound)
    (finite_a, open_a, turns_a), (finite_b, open_b, turns_b) = (_parts(*of) for of in ((a, a_bound), (b, b_bound)))
    vague = open_a @ turns_b + turns_a @ open_b  # infinite times what may have either sign
    unknown = np.isinf(a_bound).any(axis=1, keepdims=True) | np.isinf(b_bound).any(axis=0, keepdims=True)
    unknown = unknown | np.isinf(c_bound)
    largest = finite_a @ finite_b + np.where(np.isfinite(c), np.abs(c), 0.0)
    return _in_any_order(type_, result, bound, largest, ~unknown & (vague == 0))


def _of_tf32(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return the bounds of factors that are rounded to tf32: the largest may become infinite."""
    found = bounds + TF32 * (np.abs(values) + bounds)
    return np.where(np.isfinite(values), np.where(np.abs(values) + found > _LARGEST, np.inf, found), bounds)


def _parts(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sizes of finite factors, 1 where one is not finite, and 1 where one may have either sign."""
    finite = np.isfinite(values)
    sizes = np.where(finite & np.isfinite(bounds), np.abs(values) + bounds, 0.0)
    return sizes, (~finite).astype(np.float64), ((bounds > 0) & (np.abs(values) <= bounds)).astype(np.float64)


def _in_any_order(
    type_: DType, values: FloatArray, bounds: FloatArray, largest: FloatArray, sure: BoolArray
) -> Bounded:
    """As ``certain``: a partial result of finite terms up to ``largest`` may overflow, whatever the whole is."""
    overflows = largest > _LARGEST
    one_sign = np.isfinite(values) & (np.abs(values) * (1 + 2 * U) >= largest)
    bounds = np.where(overflows & ~one_sign & np.isfinite(values), np.inf, bounds)
    return certain(type_, values, bounds, sure & ~overflows)


def rounded(type_: DType, value: Bounded) -> Bounded:
    """Return a cast: the reference keeps its digits, and the bound has the rounding. What is surely beyond the largest
    number of the type becomes what the type stores in its place."""
    values, bounds = value
    if type_ == F32 or not type_.is_float:
        return value
    largest = np.abs(values) + bounds
    least = np.maximum(np.abs(values) - bounds, 0.0)  # no kernel's value is smaller
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = type_.load(type_.store(least))
    beyond = ~np.isfinite(nearest) & np.isfinite(least) & np.isfinite(values)
    with_rounding = bounds + type_.unit_roundoff * largest + SMALLEST[type_.name]
    bounds = np.where(beyond, 0.0, np.where(np.isfinite(values), with_rounding, bounds))
    return np.where(beyond, np.copysign(nearest, values), values), bounds
