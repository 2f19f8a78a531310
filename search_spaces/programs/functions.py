"""Element-wise functions of tile programs: on numpy, in CUDA C++, and how far each carries errors of its arguments.

A bound is called with the arguments, their bounds and the result, all float64. ``U`` is the unit roundoff of f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import FloatArray

U = 2.0**-24
Numbers = tuple[FloatArray, ...]


@dataclass(frozen=True)
class Function:
    """``arity`` arguments; ``code`` has their places as {0}, {1}; ``cost`` is in instructions an element."""

    arity: int
    on_numpy: Callable[..., FloatArray]
    code: str
    bound: Callable[[Numbers, Numbers, FloatArray], FloatArray]
    cost: int = 1


def _quotient(x: Numbers, e: Numbers, r: FloatArray) -> FloatArray:
    smallest = np.abs(x[1]) - e[1]
    with np.errstate(all="ignore"):
        return np.where(smallest > 0, (e[0] + np.abs(r) * e[1]) / smallest + 2 * U * np.abs(r), np.inf)


def _root(x: Numbers, e: Numbers, r: FloatArray) -> FloatArray:
    return np.minimum(np.sqrt(e[0]), e[0] / np.maximum(r, 1e-300)) + 2 * U * r


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


FUNCTIONS = {
    "add": Function(2, np.add, "({0} + {1})", lambda x, e, r: e[0] + e[1] + U * np.abs(r)),
    "subtract": Function(2, np.subtract, "({0} - {1})", lambda x, e, r: e[0] + e[1] + U * np.abs(r)),
    "multiply": Function(
        2,
        np.multiply,
        "({0} * {1})",
        lambda x, e, r: np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1] + U * np.abs(r),
    ),
    "divide": Function(2, np.divide, "({0} / {1})", _quotient, 8),
    # NaN stays NaN, as in numpy and in the RFC's maximumf and minimumf.
    "maximum": Function(2, np.maximum, "autosched::tile::maximum({0}, {1})", lambda x, e, r: np.maximum(e[0], e[1]), 2),
    "minimum": Function(2, np.minimum, "autosched::tile::minimum({0}, {1})", lambda x, e, r: np.maximum(e[0], e[1]), 2),
    "exp": Function(1, np.exp, "expf({0})", lambda x, e, r: r * np.expm1(e[0]) + 4 * U * r, 6),
    "tanh": Function(1, np.tanh, "tanhf({0})", lambda x, e, r: e[0] + 4 * U, 16),
    "sigmoid": Function(1, _sigmoid, "(1.0f / (1.0f + expf(-{0})))", lambda x, e, r: 0.25 * e[0] + 8 * U, 16),
    "sqrt": Function(1, np.sqrt, "sqrtf({0})", _root, 8),
    "absolute": Function(1, np.abs, "fabsf({0})", lambda x, e, r: e[0]),
}
