"""Generate inputs of a tile program in which the rows or columns of one array have edge cases, such as infinities.

Only edge cases for which all correct kernels have the same result are used. All other arrays are positive, so that
results keep the sign of the row or column. For example, one array can make all scores far below zero. If a kernel
forgets to mask a padded key, this key then has the largest score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import Operand
from search_spaces.operators import input_cases as cases

_PLAIN = (cases.INTEGERS, cases.NEGATIVE, cases.ZERO)
_FINITE = (*_PLAIN, cases.TIES, cases.SHIFTED, cases.RISING, cases.SUBNORMAL, cases.FAR)
_INFINITE = (cases.MINUS_INFINITY, cases.ONE_FINITE, cases.NAN, cases.INFINITY)
_EIGHT_BITS = (*_PLAIN, cases.NAN, cases.HUGE, cases.SUBNORMAL)
LEVELS: Mapping[str, tuple[tuple[cases.InputCase, ...], ...]] = {
    **dict.fromkeys(
        ("f16", "bf16", "f32"),
        (
            (*_FINITE, *_INFINITE, cases.HUGE, cases.LARGEST),
            (*_FINITE, *_INFINITE, cases.HUGE),
            (*_FINITE, cases.HUGE),
            (*_FINITE, cases.ONE_FINITE),
            _FINITE,
            _PLAIN,
        ),
    ),
    "e4m3": (_EIGHT_BITS, (*_PLAIN, cases.SUBNORMAL)),
    "e5m2": ((*_EIGHT_BITS, cases.INFINITY), (*_PLAIN, cases.SUBNORMAL)),
    "i8": ((*_PLAIN, cases.LARGEST),),
}
"""Edge cases for the rows or columns of an input, by type. The first set has all cases; the next sets have fewer."""

Expected = Callable[[Mapping[str, Array]], Iterable[tuple[FloatArray, FloatArray]]]


def edge_inputs(
    operands: Sequence[Operand], usual: Mapping[str, Array], seed: int, expected: Expected
) -> Iterator[cases.StressInputs]:
    """Yield, for each array, inputs in which this array has edge cases.

    Args:
        operands: The arrays that may hold edge cases.
        usual: Ordinary inputs of all arrays.
        seed: Random seed. Even seeds put edge cases into rows, odd seeds into columns.
        expected: Function that yields outputs with error bounds, for several choices of tile sizes. Inputs are only
            used if all of these outputs agree.
    """
    rng = np.random.default_rng((seed, 1))
    positive = dict(usual)
    for o in operands:
        if o.dtype.is_float:
            positive[o.name] = o.dtype.store(np.abs(o.dtype.load(usual[o.name])) + 2.0**-4)
    for o in operands:
        for level in LEVELS.get(o.dtype.name, ()):
            names, stored = _lines(level, rng, o, seed % 2 == 1)
            arrays = {**positive, o.name: stored}
            if _is_defined(expected(arrays)):
                yield cases.StressInputs(names, arrays)
                break


def _lines(
    level: Sequence[cases.InputCase], rng: np.random.Generator, operand: Operand, turned: bool
) -> tuple[tuple[str, ...], Array]:
    """Return an array with an edge case per line (row or column), and the names of the cases by line.

    Each element of a vector is a line.
    """
    shape, dtype = operand.shape, operand.dtype
    count, length = (math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (shape[0], 1)
    if turned and len(shape) > 1:
        count, length = count // shape[-2] * length, shape[-2]
    some = [level[i] for i in rng.permutation(len(level))]
    names, lines = next(cases.mixed(some, rng, count, length, dtype))
    if turned and len(shape) > 1:
        lines = lines.reshape(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
    return names, _stored(dtype, lines.reshape(shape))


def _stored(dtype: DType, lines: FloatArray) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return dtype.store(lines)


def _is_defined(expected: Iterable[tuple[FloatArray, FloatArray]]) -> bool:
    """Return True if all correct kernels have the same result and at least half of its elements are finite."""
    results = iter(expected)  # Results are computed lazily: if the first is undefined, the others are not computed.
    values, bounds = next(results)
    if not np.isfinite(bounds).all() or 2 * np.isfinite(values).sum() < values.size:
        return False
    for other, other_bounds in results:
        with np.errstate(invalid="ignore"):
            near = np.abs(values - other) <= bounds + other_bounds
        if not (near | (values == other) | (np.isnan(values) & np.isnan(other))).all():
            return False
    return True
