"""Element-wise functions and reductions: their numpy functions, CUDA C++, instruction counts and error bounds.

``ElementFunction.bound`` returns the error bound of a result; its arguments are the function's arguments, their error
bounds and the result, all float64. Whole numbers are exact. A truth value is 0 or 1. ``U`` is the unit roundoff of f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.hardware.block_scaling import FP4, FP4_EXPONENT
from search_spaces.hardware.dtypes import BF16, F16, F32, I32, DType

U = 2.0**-24
BOOL = DType("bool", 8, 1, "bool", "bool")
Arguments = tuple[FloatArray, ...]
Bound = Callable[[Arguments, Arguments, FloatArray], FloatArray]
Types = Literal["floats", "numbers", "whole", "mixed", "compared", "truths", "chosen"]


@dataclass(frozen=True)
class ElementFunction:
    """An element-wise function of tile programs.

    Attributes:
        code: CUDA C++ with the arguments as {0}, {1}, ...
        cost: Instructions per element.
        special: How many of these instructions run in the special-function unit.
        types: Types of arguments and result. "floats": f32 to f32. "numbers": f32 to f32, or i32 to i32. "whole": i32
            to i32. "mixed": i32 and f32 to ``gives``. "compared": f32 or i32 to a truth value. "truths": truth values
            to a truth value. "chosen": a truth value and two numbers to the numbers' type.
        gives: Result type if ``types`` does not determine it.
    """

    arity: int
    on_numpy: Callable[..., FloatArray]
    code: str
    bound: Bound
    cost: float = 1
    types: Types = "floats"
    special: int = 0
    gives: DType | None = None

    def result(self, types: tuple[DType, ...]) -> DType | str:
        """Return the type of the result; if argument types are wrong, a text that names the accepted types."""
        kinds = set(types[1:] if self.types == "chosen" else types)
        if self.gives is not None:
            of_whole = self.types == "whole"
            return self.gives if kinds <= ({I32} if of_whole else {I32, F32}) else "i32" if of_whole else "i32 and f32"
        if self.types == "floats":
            return F32 if kinds == {F32} else "f32"
        if self.types == "whole":
            return I32 if kinds == {I32} else "i32"
        if self.types == "truths":
            return BOOL if kinds == {BOOL} else "truth values, which comparisons return"
        if len(kinds) > 1 or not kinds <= {F32, I32} or (self.types == "chosen" and types[0] != BOOL):
            return "a truth value and two f32 or two i32" if self.types == "chosen" else "f32 or in i32"
        return BOOL if self.types == "compared" else kinds.pop()


def _exact(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    return np.zeros_like(r)


def _sum(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    return e[0] + e[1] + U * np.abs(r)


def _product(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1] + U * np.abs(r)


def _quotient(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    smallest = np.abs(x[1]) - e[1]
    return np.where(smallest > 0, (e[0] + np.abs(r) * e[1]) / smallest + 4 * U * np.abs(r), np.inf)


def _root(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    bound = np.minimum(np.sqrt(e[0]), e[0] / np.maximum(r, 1e-300)) + 2 * U * r
    return np.where(x[0] < e[0], np.inf, bound)  # the result may be NaN if the error can make the argument negative


def _reverse_root(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    least = x[0] - e[0]
    return np.where(least > 0, 0.5 * e[0] * np.maximum(least, 1e-300) ** -1.5 + 4 * U * r, np.inf)


def _logarithm(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    least = x[0] - e[0]
    return np.where(least > 0, e[0] / np.maximum(least, 1e-300) * 1.4427 + 2 * U * np.abs(r) + 4 * U, np.inf)


def _natural(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    least = x[0] - e[0]
    return np.where(least > 0, e[0] / np.maximum(least, 1e-300) + 2 * U * np.abs(r) + 4 * U, np.inf)


def _power(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    size = np.abs(x[0])
    share = np.where(size > 0, e[0] / np.maximum(size, 1e-300), np.where(e[0] > 0, np.inf, 0.0))
    turned = np.where(share < 1, -np.log1p(-np.minimum(share, 0.99)), np.inf)
    of_exponent = np.where(e[1] > 0, e[1] * np.abs(np.log(np.maximum(size, 1e-300))), 0.0)
    exponent = np.abs(x[1]) + e[1]
    bound = np.abs(r) * np.expm1(np.where(exponent > 0, exponent * turned, 0.0) + of_exponent) + 16 * U * np.abs(r)
    return np.where((share >= 1) | ((x[0] < 0) & (e[1] > 0)), np.inf, bound)


def _step(function: Callable[[FloatArray], FloatArray]) -> Bound:
    """Return the error bound of a monotonic step function, such as floor."""
    return lambda x, e, r: np.maximum(np.abs(function(x[0] + e[0]) - r), np.abs(function(x[0] - e[0]) - r))


def _rounding(function: Callable[[FloatArray], FloatArray], code: str) -> ElementFunction:
    return ElementFunction(1, function, code, _step(function), 1)


_WORD, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _compared(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    """Return 1 where errors of the operands may reverse the comparison, else 0."""
    near = ~(np.abs(x[0] - x[1]) > e[0] + e[1])
    return np.where(near & (e[0] + e[1] > 0), 1.0, 0.0)


def _chosen(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    own = np.where(x[0] != 0, e[1], e[2])
    return np.where(e[0] > 0, np.abs(x[1] - x[2]) + np.maximum(e[1], e[2]), own)


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _select(c: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    return np.where(c != 0, x, y)


def _largest(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    return np.maximum(e[0], e[1])


def _either(x: Arguments, e: Arguments, r: FloatArray) -> FloatArray:
    return np.maximum(e[0], e[1])


def _bits(function: Callable[..., object]) -> Callable[..., FloatArray]:
    return lambda *x: np.asarray(function(*(v.astype(np.int64) for v in x)), dtype=np.float64)


def _truth(function: Callable[..., object]) -> Callable[..., FloatArray]:
    return lambda *x: np.asarray(function(*x), dtype=np.float64)


def _nibble(
    word: FloatArray, column: FloatArray, first: FloatArray, count: FloatArray, zero: FloatArray, times: FloatArray
) -> FloatArray:
    bits, position = word.astype(np.int64), column.astype(np.int64)
    step = position // 16 % count.astype(np.int64) + first.astype(np.int64)
    return np.asarray(((bits >> (4 * step + 16 * (position & 1)) & 15) - zero) * times, dtype=np.float64)


def _fp4(word: FloatArray, column: FloatArray, first: FloatArray, count: FloatArray, scale: FloatArray) -> FloatArray:
    bits, position = word.astype(np.int64), column.astype(np.int64)
    step = position // 16 % count.astype(np.int64) + first.astype(np.int64)
    code = bits >> (4 * step + 16 * (position & 1)) & 15
    return np.asarray(np.where(code > 7, -1.0, 1.0) * FP4[code & 7] * scale * 2.0**FP4_EXPONENT, dtype=np.float64)


def _comparison(function: Callable[..., object], sign: str) -> ElementFunction:
    return ElementFunction(2, _truth(function), f"({{0}} {sign} {{1}})", _compared, 1, "compared")


def _integers(function: Callable[..., object], sign: str) -> ElementFunction:
    return ElementFunction(2, _bits(function), f"({{0}} {sign} {{1}})", _exact, 1, "whole")


def _philox(counter: FloatArray, seed: FloatArray, word: FloatArray) -> FloatArray:
    """Return word ``word`` of Philox4x32-10 (Salmon et al., 2011) for counters (counter, 0, 0, 0), keys (seed, 0)."""
    low, low_key = (np.asarray(x).astype(np.int64).astype(np.uint64) & _WORD for x in (counter, seed))
    words, keys = [low, *(np.zeros_like(low) for _ in range(3))], [low_key, np.zeros_like(low_key)]
    for _ in range(10):
        one, two = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [two >> _HALF ^ words[1] ^ keys[0], two & _WORD, one >> _HALF ^ words[3] ^ keys[1], one & _WORD]
        keys = [keys[0] + np.uint64(0x9E3779B9) & _WORD, keys[1] + np.uint64(0xBB67AE85) & _WORD]
    selected = np.select([np.asarray(word) == i for i in range(4)], words)
    return selected.astype(np.uint32).view(np.int32).astype(np.float64)


FUNCTIONS = {
    "add": ElementFunction(2, np.add, "tile::add({0}, {1})", _sum, 1, "numbers"),
    "subtract": ElementFunction(2, np.subtract, "tile::subtract({0}, {1})", _sum, 1, "numbers"),
    "multiply": ElementFunction(2, np.multiply, "({0} * {1})", _product, 1, "numbers"),
    # Accurate to 2 ulp, as in Triton: correctly rounded quotients need a branch and a call per register.
    "divide": ElementFunction(2, np.divide, "ptx::div_full({0}, {1})", _quotient, 6, "floats", 1),
    # If an argument is NaN, the result is NaN, as in numpy and in the RFC's maximumf and minimumf.
    "maximum": ElementFunction(2, np.maximum, "tile::maximum({0}, {1})", _largest, 1, "numbers"),
    "minimum": ElementFunction(2, np.minimum, "tile::minimum({0}, {1})", _largest, 1, "numbers"),
    "exp": ElementFunction(1, np.exp, "expf({0})", lambda x, e, r: r * np.expm1(e[0]) + 4 * U * r, 6, "floats", 1),
    # ex2.approx.ftz flushes subnormal results to 0.
    "exp2": ElementFunction(
        1,
        np.exp2,
        "ptx::ex2_approx_ftz({0})",
        lambda x, e, r: r * np.expm1(e[0] * 0.6931472) + 4 * U * r + 2.0**-126,
        1,
        "floats",
        1,
    ),
    "log2": ElementFunction(1, np.log2, "tile::log2({0})", _logarithm, 6, "floats", 1),
    "tanh": ElementFunction(1, np.tanh, "tanhf({0})", lambda x, e, r: e[0] + 4 * U, 16, "floats", 2),
    "sigmoid": ElementFunction(1, _sigmoid, "tile::sigmoid({0})", lambda x, e, r: 0.25 * e[0] + 8 * U, 4, "floats", 2),
    "sqrt": ElementFunction(1, np.sqrt, "sqrtf({0})", _root, 8, "floats", 1),
    "rsqrt": ElementFunction(1, lambda x: 1.0 / np.sqrt(x), "tile::rsqrt({0})", _reverse_root, 4, "floats", 1),
    "sine": ElementFunction(1, np.sin, "tile::sine({0})", lambda x, e, r: np.minimum(e[0], 2.0) + 4 * U, 24),
    "cosine": ElementFunction(1, np.cos, "tile::cosine({0})", lambda x, e, r: np.minimum(e[0], 2.0) + 4 * U, 24),
    "log": ElementFunction(1, np.log, "tile::log({0})", _natural, 8, "floats", 1),
    "erf": ElementFunction(1, _erf, "tile::erf({0})", lambda x, e, r: np.minimum(1.1284 * e[0], 2.0) + 4 * U, 24),
    "power": ElementFunction(2, np.power, "tile::power({0}, {1})", _power, 40, "floats", 2),
    "floor": _rounding(np.floor, "floorf({0})"),
    "ceil": _rounding(np.ceil, "ceilf({0})"),
    "round": _rounding(np.rint, "rintf({0})"),  # rounds ties to even, as rintf does
    "truncate": _rounding(np.trunc, "truncf({0})"),
    "absolute": ElementFunction(1, np.abs, "tile::absolute({0})", lambda x, e, r: e[0], 1, "numbers"),
    "less": _comparison(np.less, "<"),
    "less_equal": _comparison(np.less_equal, "<="),
    "equal": _comparison(np.equal, "=="),
    "and": ElementFunction(2, _truth(np.logical_and), "({0} & {1})", _either, 1, "truths"),
    "or": ElementFunction(2, _truth(np.logical_or), "({0} | {1})", _either, 1, "truths"),
    "not": ElementFunction(1, _truth(np.logical_not), "(!{0})", lambda x, e, r: e[0], 1, "truths"),
    "where": ElementFunction(3, _select, "({0} ? {1} : {2})", _chosen, 1, "chosen"),
    "bit_and": _integers(np.bitwise_and, "&"),
    "bit_or": _integers(np.bitwise_or, "|"),
    "bit_xor": _integers(np.bitwise_xor, "^"),
    "shift_right": _integers(np.right_shift, ">>"),
    "shift_left": _integers(np.left_shift, "<<"),
    # The operator % of C++ agrees with Python only for dividends >= 0.
    "modulo": ElementFunction(2, _bits(np.mod), "({0} % {1})", _exact, 4, "whole"),
    # Unpack 4-bit weights: subtract the zero point from four bits of a word, and multiply by 1 or 16. The result is
    # exact in f16 and bf16. For four pairs, bf16 takes 11 instructions.
    **{
        f"nibble_{t.name}": ElementFunction(
            6, _nibble, "tile::nibble({0}, {1}, {2}, {3}, {4}, {5})", _exact, cost, "whole", gives=t
        )
        for t, cost in ((F16, 1.0), (BF16, 1.375))
    },
    # Unpack fp4 weights: e2m1 numbers of a word, times an e4m3 scale and a power of two, exact in f16 and bf16. Four
    # pairs take 19 instructions with f16 and 17 with bf16, in addition to the instructions that unpack scales.
    **{
        f"fp4_{t.name}": ElementFunction(5, _fp4, "tile::fp4({0}, {1}, {2}, {3}, {4})", _exact, cost, "mixed", gives=t)
        for t, cost in ((F16, 2.375), (BF16, 2.125))
    },
    # Random bits from a counter, a seed and the index of a word (0 to 3).
    "philox": ElementFunction(3, _philox, "tile::philox({0}, {1}, {2})", _exact, 100, "whole"),
    "floor_divide": ElementFunction(2, _bits(np.floor_divide), "tile::floor_divide({0}, {1})", _exact, 6, "whole"),
}


@dataclass(frozen=True)
class Reduction:
    """A reduction of tile programs.

    Attributes:
        start: Neutral element.
        code: CUDA C++ that combines {0} and {1}.
        types: Element types that it accepts.
        ordered: True if the result depends on the order of the elements, as for a sum or product of floats.
    """

    on_numpy: Callable[..., FloatArray]
    start: float
    code: str
    types: tuple[str, ...]
    ordered: bool = False


def _unsigned(function: Callable[..., object]) -> Callable[..., FloatArray]:
    """Return the reduction by ``function`` of i32 elements that are interpreted as unsigned."""

    def reduced(x: FloatArray, axis: int) -> FloatArray:
        result = np.asarray(function(x.astype(np.int64) & 0xFFFFFFFF, axis=axis), dtype=np.int64)
        return result.astype(np.int32).astype(np.float64)

    return reduced


ONE_OF_GROUP = "one_of_group"  # only for slices, as each group must have at most one nonzero number
_INT_LEAST, _INT_MOST = float(-(2**31)), float(2**31 - 1)
_FLOATS, _WHOLE = ("f32",), ("i32",)

REDUCTIONS = {
    "add": Reduction(np.add.reduce, 0.0, "tile::add({0}, {1})", ("f32", "i32"), True),
    "mul": Reduction(np.multiply.reduce, 1.0, "({0} * {1})", ("f32", "i32"), True),
    # Returns the only nonzero number of a group: the bitwise OR of all its numbers.
    ONE_OF_GROUP: Reduction(np.add.reduce, 0.0, "tile::only({0}, {1})", ("f32", "i32")),
    "maximumf": Reduction(np.maximum.reduce, -np.inf, "tile::maximum({0}, {1})", _FLOATS),
    "minimumf": Reduction(np.minimum.reduce, np.inf, "tile::minimum({0}, {1})", _FLOATS),
    "maxnumf": Reduction(np.fmax.reduce, -np.inf, "fmaxf({0}, {1})", _FLOATS),
    "minnumf": Reduction(np.fmin.reduce, np.inf, "fminf({0}, {1})", _FLOATS),
    "maxsi": Reduction(np.maximum.reduce, _INT_LEAST, "tile::maximum({0}, {1})", _WHOLE),
    "minsi": Reduction(np.minimum.reduce, _INT_MOST, "tile::minimum({0}, {1})", _WHOLE),
    "andi": Reduction(
        lambda x, axis: np.bitwise_and.reduce(x.astype(np.int64), axis=axis), -1.0, "({0} & {1})", _WHOLE
    ),
    "ori": Reduction(lambda x, axis: np.bitwise_or.reduce(x.astype(np.int64), axis=axis), 0.0, "({0} | {1})", _WHOLE),
    # The next two reductions interpret elements as unsigned 32-bit numbers.
    "maxui": Reduction(_unsigned(np.maximum.reduce), 0.0, "tile::maximum_unsigned({0}, {1})", _WHOLE),
    "minui": Reduction(_unsigned(np.minimum.reduce), -1.0, "tile::minimum_unsigned({0}, {1})", _WHOLE),
    "xori": Reduction(lambda x, axis: np.bitwise_xor.reduce(x.astype(np.int64), axis=axis), 0.0, "({0} ^ {1})", _WHOLE),
}


@dataclass(frozen=True)
class Pick:
    """A reduction that picks an element and returns its index.

    As in numpy, NaN takes precedence over all numbers, and the first of equal elements is picked.

    Attributes:
        start: Initial value for each element type. Any element takes precedence over it.
        sign: 1 if the largest element is picked, -1 if the smallest.
    """

    start: Mapping[str, float]
    sign: int

    @property
    def code(self) -> str:
        """CUDA C++ that assigns element {2} with index {3} to element {0} with index {1} if {2} is better."""
        return f"tile::pick<{self.sign}>({{0}}, {{1}}, {{2}}, {{3}});"


PICKS = {
    "argmax": Pick({"f32": -np.inf, "i32": _INT_LEAST}, 1),
    "argmin": Pick({"f32": np.inf, "i32": _INT_MOST}, -1),
}
# the reductions that return the picked element, for f32 and i32
PICKED = {
    "argmax": ("maximumf", "maxsi"),
    "argmin": ("minimumf", "minsi"),
}
SCANS = {
    "add": np.add.accumulate,
    "mul": np.multiply.accumulate,
    "maximumf": np.maximum.accumulate,
    "minimumf": np.minimum.accumulate,
    "maxsi": np.maximum.accumulate,
    "minsi": np.minimum.accumulate,
}


@dataclass(frozen=True)
class Atomic:
    """A kind of atomic_rmw.

    Attributes:
        reduction: Name of the reduction that combines the element in memory with a new element; "" if the new element
            replaces it.
        types: Element types that it accepts.
        red: Hardware atomic operation for f32 and i32; "" if threads must use compare-and-swap.
    """

    reduction: str
    types: tuple[str, ...]
    red: str = ""


_STORED_FLOATS = ("f32", "f16", "bf16")
ATOMICS = {
    "addf": Atomic("add", _STORED_FLOATS, "add"),
    "addi": Atomic("add", _WHOLE, "add"),
    "mulf": Atomic("mul", _STORED_FLOATS),
    "muli": Atomic("mul", _WHOLE),
    **{kind: Atomic(kind, _STORED_FLOATS) for kind in ("maximumf", "minimumf", "maxnumf", "minnumf")},
    "maxs": Atomic("maxsi", _WHOLE, "max"),
    "mins": Atomic("minsi", _WHOLE, "min"),
    "maxu": Atomic("maxui", _WHOLE, "max_unsigned"),
    "minu": Atomic("minui", _WHOLE, "min_unsigned"),
    "assign": Atomic("", (*_STORED_FLOATS, "i32"), "assign"),
    **{kind: Atomic(kind, _WHOLE, kind[:-1]) for kind in ("andi", "ori", "xori")},
}


def number_code(number: float, type_: DType) -> str:
    """Return a constant as CUDA C++."""
    if type_.name == "bool":
        return "true" if number else "false"
    if not type_.is_float:
        return "(-2147483647 - 1)" if number == _INT_LEAST else str(int(number))
    if number != number:
        return "__int_as_float(0x7fffffff)"
    if number in (np.inf, -np.inf):
        return "__int_as_float(0x7f800000)" if number > 0 else "__int_as_float(0xff800000)"
    text = repr(float(np.float32(number)))
    return f"{text}f" if number >= 0 else f"({text}f)"
