"""Arithmetic on arrays for the expression language. Each operation returns values and a mask of defined values.

No operation raises. Arrays may have any shapes that broadcast. Where the mask is False, the value is arbitrary.
Integers stay below BOUND.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray

Type = Literal["int", "float", "bool", "text"]
Array = npt.NDArray[Any]
Pair = tuple[Array, BoolArray]  # values, and a mask that is True where the value is defined
# Evaluator of an expression: a function that returns the values of the expression. Its argument is a function that
# returns the values of a name.
Evaluate = Callable[[Callable[[str], Array]], Pair]
Operation = Callable[
    ..., tuple[Array, Array]
]  # operation on arrays of one type; returns results, and a mask that is True where they are defined

BOUND = 2**62  # bound of integers, chosen so that the sum of two integers fits in 64 bits
STORAGE: dict[Type, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "text": object}
_ALWAYS = np.asarray(True)


def truth(a: Array) -> BoolArray:
    """Return a mask of the true values: numbers other than 0, texts other than ""."""
    return np.asarray(a, dtype=np.bool_)


def constant(value: object, kind: Type) -> Evaluate:
    """Return an evaluator of a constant."""
    array = np.asarray(value, dtype=STORAGE[kind])
    return lambda look_up: (array, _ALWAYS)


def named(name: str, kind: Type) -> Evaluate:
    """Return an evaluator of a name. If the name stands for floats, its values may be strings such as "0.5"."""
    if kind == "float":
        return lambda look_up: (look_up(name).astype(np.float64), _ALWAYS)
    return lambda look_up: (look_up(name), _ALWAYS)


def unary(function: Callable[[Array], Array], operand: Evaluate) -> Evaluate:
    """Return an evaluator of a function of one argument. The function must be defined for every value."""

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        values, defined = operand(look_up)
        return function(values), defined

    return evaluate


def applied(operation: Operation, wide: Type, kind: Type, operands: Sequence[Evaluate]) -> Evaluate:
    """Return an evaluator of an operation on operands.

    Args:
        operation: Function of one or two arrays. It returns results, and a mask that is True where a result is defined.
        wide: Type to which the operands are converted before the operation.
        kind: Type of the result; results outside its range are undefined.
        operands: Operands of the operation, applied from left to right if there are more than two.

    Returns:
        The evaluator.
    """

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        pairs = [operand(look_up) for operand in operands]
        if len(pairs) == 1:
            return settled(pairs[0])
        result = pairs[0]
        for other in pairs[1:]:
            result = settled(result, other)
        return result

    def settled(*pairs: Pair) -> Pair:
        """Apply the operation to evaluated operands. Too large or non-finite results become undefined."""
        with np.errstate(all="ignore"):
            values, ok = operation(*(_as(wide, values) for values, _ in pairs))
            for _, defined in pairs:
                ok = ok & defined
            if kind == "float":
                ok = ok & np.isfinite(values)
            elif kind == "int":
                ok = ok & (values < BOUND) & (values > -BOUND)
        return np.where(ok, values, 0).astype(STORAGE[kind]), ok

    return evaluate


def _as(kind: Type, values: Array) -> Array:
    return values.astype(STORAGE[kind], copy=False)


def compared(compare: Callable[[Array, Array], Array], a: Evaluate, b: Evaluate) -> Evaluate:
    """Return an evaluator of a comparison of two operands."""

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        (left, defined), (right, also) = a(look_up), b(look_up)
        return np.asarray(compare(left, right), dtype=np.bool_), defined & also

    return evaluate


def is_among(a: Evaluate, values: Sequence[Evaluate]) -> Evaluate:
    """Return an evaluator of Python's ``in``.

    All listed values are evaluated. If any of them is undefined, the result is undefined.
    """

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        value, defined = a(look_up)
        is_member = np.zeros_like(defined)
        for other in values:
            candidate, is_defined = other(look_up)
            is_member = is_member | (value == candidate)
            defined = defined & is_defined
        return np.asarray(is_member, dtype=np.bool_), defined

    return evaluate


def either(parts: Sequence[Evaluate], stop: bool, kind: Type) -> Evaluate:
    """Return an evaluator of Python's ``or`` if ``stop`` is true, and of Python's ``and`` otherwise.

    The result is the first operand whose truth value is ``stop``, else the last operand.
    """

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        values, defined = parts[-1](look_up)
        for part in reversed(parts[:-1]):
            first, is_defined = part(look_up)
            ends = truth(first) == stop
            values = np.where(ends, first, values)
            defined = is_defined & (ends | defined)
        return _as(kind, values), defined

    return evaluate


def choice(test: Evaluate, then: Evaluate, otherwise: Evaluate, kind: Type) -> Evaluate:
    """Return an evaluator of ``then if test else otherwise``.

    Args:
        test: Condition.
        then: Value if the condition holds.
        otherwise: Value if it does not hold.
        kind: Type of both values. Only the chosen value needs to be defined.

    Returns:
        The evaluator.
    """

    def evaluate(look_up: Callable[[str], Array]) -> Pair:
        (condition, defined), (a, a_defined), (b, b_defined) = test(look_up), then(look_up), otherwise(look_up)
        chosen = truth(condition)
        return _as(kind, np.where(chosen, a, b)), defined & np.where(chosen, a_defined, b_defined)

    return evaluate


def _multiply(a: Array, b: Array) -> tuple[Array, Array]:
    if a.dtype == np.float64:
        return a * b, _ALWAYS
    # larger products would wrap around in 64 bits
    fits = np.abs(a.astype(np.float64) * b.astype(np.float64)) < 1.5 * BOUND
    return np.where(fits, a, 0) * b, fits


def _power(a: Array, b: Array) -> tuple[Array, Array]:
    if a.dtype == np.float64:
        return _each(_float_power, a, b)
    natural = b >= 0  # a negative exponent would give a fraction, so the result is undefined
    fits = natural & (np.power(np.abs(a).astype(np.float64), np.where(natural, b, 0)) < 1.5 * BOUND)
    return np.power(np.where(fits, a, 0), np.where(fits, b, 0)), fits


def _float_power(a: float, b: float) -> float:
    result = a**b
    # NaN means that Python's result is a complex number, which counts as undefined
    return result if isinstance(result, float) else math.nan


def _each(function: Callable[..., float], *arrays: Array) -> tuple[Array, Array]:
    """Apply a Python function of floats to arrays, with one call per distinct combination of elements.

    Numpy's vectorised functions are not used, because their results differ from Python's in the last digit.
    """
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    known: dict[tuple[Any, ...], float] = {}
    results = []
    for row in zip(*(np.broadcast_to(a, shape).ravel().tolist() for a in arrays), strict=True):
        if row not in known:
            try:
                known[row] = function(*row)
            except (ArithmeticError, ValueError):
                known[row] = math.nan
        results.append(known[row])
    values = np.array(results, dtype=np.float64).reshape(shape)
    return values, np.isfinite(values)


def _divided(divide: Callable[[Array, Array], Array]) -> Operation:
    return lambda a, b: (divide(a, np.where(b == 0, 1, b)), b != 0)


def _round_up(a: Array, b: Array) -> tuple[Array, Array]:
    quotient, valid = _CEIL_DIV(a, b)
    product, fits = _multiply(quotient, b)
    return product, valid & fits


def _everywhere(function: Callable[..., Array]) -> Operation:
    return lambda *arrays: (function(*arrays), _ALWAYS)


def _rounded(function: Callable[[Array], Array]) -> Operation:
    def apply(a: Array) -> tuple[Array, Array]:
        if a.dtype != np.float64:
            return a, _ALWAYS
        fits = np.abs(a) < BOUND
        return function(np.where(fits, a, 0.0)).astype(np.int64), fits

    return apply


def _square_root(a: Array) -> tuple[Array, Array]:
    return np.sqrt(np.maximum(a, 0).astype(np.float64)), a >= 0


def _shift_left(a: Array, b: Array) -> tuple[Array, Array]:
    possible = (b >= 0) & (b < 62)
    product, fits = _multiply(a, np.left_shift(1, np.where(possible, b, 0)))
    return product, possible & fits


def _shift_right(a: Array, b: Array) -> tuple[Array, Array]:
    return np.right_shift(a, np.clip(b, 0, 63)), b >= 0


_CEIL_DIV = _divided(lambda a, b: -(-a // b))

BINARY: dict[type[ast.operator], Operation] = {
    ast.Add: _everywhere(np.add),
    ast.Sub: _everywhere(np.subtract),
    ast.Mult: _multiply,
    ast.Div: _divided(np.divide),
    ast.FloorDiv: _divided(np.floor_divide),
    ast.Mod: _divided(np.mod),
    ast.Pow: _power,
}
BITWISE: dict[type[ast.operator], Operation] = {  # operations that are defined on integers only
    ast.BitAnd: _everywhere(np.bitwise_and),
    ast.BitOr: _everywhere(np.bitwise_or),
    ast.BitXor: _everywhere(np.bitwise_xor),
    ast.LShift: _shift_left,
    ast.RShift: _shift_right,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Array, Array], Array]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


@dataclass(frozen=True)
class ExpressionFunction:
    """A function of the expression language.

    ``arguments`` has the minimum and the maximum number of arguments. If ``type`` is None, the result has the type of
    the arguments. ``partial`` is True if the function is undefined for some arguments.
    """

    arguments: tuple[int, int]
    operation: Operation
    type: Type | None = None
    partial: bool = False
    integers: bool = False


FUNCTIONS: dict[str, ExpressionFunction] = {
    "min": ExpressionFunction((2, 64), _everywhere(np.minimum)),
    "max": ExpressionFunction((2, 64), _everywhere(np.maximum)),
    "abs": ExpressionFunction((1, 1), _everywhere(np.abs)),
    "ceil_div": ExpressionFunction((2, 2), _CEIL_DIV, partial=True),
    "round_up": ExpressionFunction((2, 2), _round_up, partial=True),
    "gcd": ExpressionFunction((2, 2), _everywhere(np.gcd), integers=True),
    "is_power_of_two": ExpressionFunction(
        (1, 1), _everywhere(lambda a: (a > 0) & ((a & (a - 1)) == 0)), "bool", integers=True
    ),
    "int": ExpressionFunction((1, 1), _rounded(np.trunc), "int"),
    "floor": ExpressionFunction((1, 1), _rounded(np.floor), "int"),
    "ceil": ExpressionFunction((1, 1), _rounded(np.ceil), "int"),
    "round": ExpressionFunction((1, 1), _rounded(np.rint), "int"),
    "float": ExpressionFunction((1, 1), _everywhere(lambda a: a.astype(np.float64)), "float"),
    "sqrt": ExpressionFunction((1, 1), _square_root, "float", partial=True),
    "log2": ExpressionFunction((1, 1), lambda a: _each(math.log2, a), "float", partial=True),
}
# Functions of Python's module "math" that expressions may use.
MATH: dict[str, ExpressionFunction] = {
    **{name: FUNCTIONS[name] for name in ("sqrt", "log2", "floor", "ceil", "gcd")},
    "fabs": ExpressionFunction((1, 1), _everywhere(lambda a: np.abs(a).astype(np.float64)), "float"),
    "trunc": FUNCTIONS["int"],
    "pow": ExpressionFunction(
        (2, 2), lambda a, b: _each(_float_power, a.astype(np.float64), b.astype(np.float64)), "float", True
    ),
    "log": ExpressionFunction((1, 2), lambda *a: _each(math.log, *a), "float", partial=True),
    "log10": ExpressionFunction((1, 1), lambda a: _each(math.log10, a), "float", partial=True),
    "exp": ExpressionFunction((1, 1), lambda a: _each(math.exp, a), "float", partial=True),
    "isqrt": ExpressionFunction((1, 1), lambda a: _integers(math.isqrt, a), "int", partial=True, integers=True),
    "lcm": ExpressionFunction((2, 2), _everywhere(np.lcm), integers=True),
}


def _integers(function: Callable[..., int], a: Array) -> tuple[Array, Array]:
    """Apply a Python function of a non-negative integer to an array; negative elements give undefined results."""
    possible = a >= 0
    integers = [function(value) for value in np.where(possible, a, 0).ravel().tolist()]
    return np.array(integers, dtype=np.int64).reshape(a.shape), possible
