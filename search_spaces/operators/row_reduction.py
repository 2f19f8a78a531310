"""Definitions of row reductions and normalisations, and the accuracy that kernels must have.

Every problem has a row-major input ``x`` of shape (rows, columns). A kernel treats x as an array of shape (outer,
length, inner). It reduces ``length`` elements to one, or normalises them together.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import FLOAT_DTYPES, SMALLEST, U32, DType, dtype
from search_spaces.launches.operand import Operand
from search_spaces.operators import input_cases as cases
from search_spaces.operators.part import Indices, grid
from search_spaces.operators.problem import Problem, ProblemPart, option, standard_normal, sum_growth

KINDS = ("sum", "max", "mean", "sumsq", "argmax")
AXES = ("row", "column")
PASSES = ("one", "two")

_LEAST_EPS = 2.0**-126  # smallest eps: the smallest normal f32, because kernels add eps in f32
_PART_ELEMENTS = 2**16
_UNIT = 2.0**-24  # unit roundoff of f32, the type of all arithmetic
# A line of _LONG or more elements has few distinct values if its first _SAMPLE elements have fewer than _FEW.
_LONG, _SAMPLE, _FEW = 2**15, 256, 64
_LARGEST_F16_SUM = 2.0**14  # value to which sums of squares of random inputs are scaled if f16 could overflow


def line_growth(x: FloatArray) -> FloatArray:
    """Return the error of each line's sum as a multiple of 2^-24: [lines, 1] for ``x`` [lines, n].

    The result is ``sum_growth``, except for long lines with few distinct values. Equal terms have equal rounding
    errors, whose signs are not random. For such lines, one rounding error per addition is therefore allowed. For
    example, bf16 values near 200 are integers. If four threads each add a quarter of the exponentials of 262,502 such
    values, the error is 1.1 times ``sum_growth``.
    """
    n = x.shape[-1]
    growth: FloatArray = np.zeros_like(x[..., :1]) + sum_growth(n)
    if n >= _LONG:
        ordered = np.sort(x[..., :_SAMPLE], axis=-1)
        distinct = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1, keepdims=True)
        growth = np.where(distinct < _FEW, n + 16.0, growth)
    return growth


@dataclass(frozen=True)
class RowProblem(Problem):
    """Base class of the problems of these operators.

    Raises ValueError if a size is below 1 or too large (2^30), an array has 2^40 or more elements, or a type is
    unknown.
    """

    rows: int = option("rows of x")
    columns: int = option("columns of x")
    dtype: str = option("type of x", "f16", choices=tuple(FLOAT_DTYPES))
    out: str = option("type of out (default: the type of x)", "", choices=tuple(FLOAT_DTYPES))

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The number of rows, which are independent of each other."""
        return {"rows": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype", "out")
        self._take_defaults(out=self.dtype)
        self._take_extents("rows", "columns")
        if self.rows * self.columns >= 2**40:
            raise ValueError("the array is too large: keep rows x columns under 2^40 elements")
        dtype(self.dtype)
        self._check_out()

    def _check_out(self) -> None:
        dtype(self.out)

    # How a kernel views x

    normalizes: ClassVar[bool] = True  # True if the kernel writes every element, False if it writes one element per row
    has_weight: ClassVar[bool] = False
    has_bias: ClassVar[bool] = False
    passes: ClassVar[tuple[str, ...]] = ("one",)

    @property
    def outer(self) -> int:
        """Number of groups of rows that are reduced separately if columns are reduced; otherwise 1."""
        return 1

    @property
    def length(self) -> int:
        """Number of elements that are reduced to one."""
        return self.columns

    @property
    def inner(self) -> int:
        """Number of columns if columns are reduced; otherwise 1."""
        return 1

    @property
    def reduces_contiguous(self) -> bool:
        """True if contiguous memory is reduced."""
        return True

    @property
    def parallel_extent(self) -> int:
        """Number of separate reductions per outer index: rows, or columns."""
        return self.rows

    @property
    def contiguous(self) -> int:
        """Number of contiguous elements that belong to one reduction, or to adjacent reductions."""
        return self.length if self.reduces_contiguous else self.inner

    @abstractmethod
    def functor(self, passes: str) -> str:
        """Return the C++ type of the operator (autosched/kernels/row_operators.cuh)."""

    @abstractmethod
    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return the number of 32-bit words of the state of each pass."""

    @property
    @abstractmethod
    def flops_per_element(self) -> float:
        """Number of floating-point operations per element of x."""

    @property
    def epsilon(self) -> float:
        """Number added to the variance, or to the mean of squares; 0 for operators without eps."""
        return 0.0

    # Common to all row problems

    @property
    def input_dtype(self) -> DType:
        """Type of the inputs."""
        return FLOAT_DTYPES[self.dtype]

    @property
    def out_dtype(self) -> DType:
        """Type of out."""
        return FLOAT_DTYPES[self.out]

    @property
    def flops(self) -> float:
        """Number of floating-point operations: ``flops_per_element`` times the elements of x."""
        return self.flops_per_element * self.rows * self.columns

    def operands(self) -> tuple[Operand, ...]:
        """Return x, the optional weight and bias, and out, which has the shape of x."""
        extra = tuple(
            Operand(name, "input", self.input_dtype, (self.columns,))
            for name, exists in (("weight", self.has_weight), ("bias", self.has_bias))
            if exists
        )
        return (
            Operand("x", "input", self.input_dtype, (self.rows, self.columns)),
            *extra,
            Operand("out", "output", self.out_dtype, (self.rows, self.columns)),
        )

    def stress_inputs(self, seed: int) -> Iterator[cases.StressInputs]:
        """Yield inputs: the reduced lines of x contain the input cases; weights and biases are standard normal."""
        rng = np.random.default_rng((seed, 1))
        count = self.rows * self.columns // self.length
        other_operands = {o.name: o for o in self.operands() if o.role == "input" and o.name != "x"}
        for names, lines in cases.mixed(self.input_cases(), rng, count, self.length, self.input_dtype):
            x = np.ascontiguousarray(lines.reshape(self.outer, -1, self.length).swapaxes(1, 2))
            x = lines if self.reduces_contiguous else x
            stored = {"x": self.input_dtype.store(x).reshape(self.rows, self.columns)}
            stored |= {name: standard_normal(rng, o.shape, o.dtype) for name, o in other_operands.items()}
            yield cases.StressInputs(names, stored)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield problems for the rows that contain ``positions``, in groups that fit into the CPU's cache."""
        of_position = positions // self.columns
        rows = np.concatenate((of_position[:1], of_position[1:][of_position[1:] != of_position[:-1]]))
        columns = np.arange(self.columns)
        extra = {o.name: columns for o in self.operands() if o.role == "input" and o.name != "x"}
        together = max(1, _PART_ELEMENTS // self.columns)
        for some in np.split(rows, range(together, rows.size, together)):
            x = grid(0, (some, self.columns), (columns, 1))
            yield ProblemPart(replace(self, rows=some.size), {"x": x, **extra}, {"out": x})

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the error bound, after computing the reference."""
        return self.expected(inputs)[1]

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the reference, and the error bound, which is computed from the reference."""
        reference = self.reference(inputs)
        return reference, {"out": self._allowed(inputs, reference["out"])}

    @abstractmethod
    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Return the tolerance of out, computed from the reference of out."""

    def _load(self, inputs: Mapping[str, Array], name: str) -> FloatArray:
        return self.input_dtype.load(inputs[name])

    def _rounded(self, bound: FloatArray, result: FloatArray) -> FloatArray:
        """Add the error of rounding to the output type to ``bound``, the error of the f32 result."""
        added: FloatArray = np.abs(result) + bound
        added *= self.out_dtype.unit_roundoff
        added += bound
        added += SMALLEST[self.out]
        return added


@dataclass(frozen=True)
class Reduce(RowProblem):
    """One value for every row (``axis`` "row") or every column ("column") of x.

    ``kind`` is sum, max, mean, sumsq (sum of squares) or argmax (index of the first maximum, u32). As in numpy, a
    maximum with a NaN is NaN. With ``reduction_size`` r (XeTile ``reduction``), r consecutive elements of the axis are
    reduced to one value. out is then rows x (columns / r) or (rows / r) x columns. r = 0 means the whole axis.

    Raises:
        ValueError: As for RowProblem; or a name is unknown, or r does not divide the axis.
    """

    operator: ClassVar[str] = "reduce"
    summary: ClassVar[str] = "sum, max, mean, sum of squares or argmax of rows or columns"
    normalizes: ClassVar[bool] = False

    out: str = option("type of out (default: the type of x, or u32 for argmax)", "", choices=(*FLOAT_DTYPES, "u32"))
    kind: str = option("kind of the reduction", "sum", choices=KINDS)
    axis: str = option("elements that are reduced to one value: a row or a column", "row", choices=AXES)
    reduction_size: int = option("number of elements that are reduced to one value; 0 for the whole axis", 0)

    def __post_init__(self) -> None:
        self._take_types("dtype", "out")
        self._take_defaults(out="u32" if self.kind == "argmax" else self.dtype)
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}: use one of {', '.join(KINDS)}")
        if self.axis not in AXES:
            raise ValueError(f"axis must be row or column, not {self.axis!r}")
        super().__post_init__()
        self._take_sizes("reduction_size", least=0)  # 0 means the whole axis
        size = self.reduction_size
        if size and self._reduced_extent % size:
            raise ValueError(
                f"reduction_size is {size}, which does not divide the {self._reduced_extent} elements of a {self.axis}"
            )

    def _check_out(self) -> None:
        if self.kind == "argmax":
            if self.out != "u32":
                raise ValueError(f"out must be u32 for argmax, not {self.out!r}, because it is an index")
        else:
            dtype(self.out)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The number of rows if rows are reduced, otherwise the number of columns."""
        return {"rows": 4096} if self.axis == "row" else {"columns": 4096}

    @property
    def _reduced_extent(self) -> int:
        return self.columns if self.axis == "row" else self.rows

    @property
    def length(self) -> int:
        """Number of elements that are reduced to one."""
        return self.reduction_size or self._reduced_extent

    @property
    def reduces_contiguous(self) -> bool:
        """True for reductions of rows."""
        return self.axis == "row"

    @property
    def outer(self) -> int:
        """Number of groups of rows that are reduced separately."""
        return 1 if self.reduces_contiguous else self.rows // self.length

    @property
    def inner(self) -> int:
        """Number of columns if columns are reduced; otherwise 1."""
        return 1 if self.reduces_contiguous else self.columns

    @property
    def parallel_extent(self) -> int:
        """Number of reductions for each outer index."""
        return self.rows * self.columns // self.length if self.reduces_contiguous else self.columns

    @property
    def out_dtype(self) -> DType:
        """Type of out: u32 for argmax, otherwise the field ``out``."""
        return U32 if self.kind == "argmax" else FLOAT_DTYPES[self.out]

    def functor(self, passes: str) -> str:
        """Return the C++ type for the kind of reduction."""
        return {
            "sum": "ReduceSum<false, false>",
            "mean": "ReduceSum<false, true>",
            "sumsq": "ReduceSum<true, false>",
            "max": "ReduceMax",
            "argmax": "ReduceArgMax",
        }[self.kind]

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return two words for argmax (value and index), otherwise one word."""
        return (2 if self.kind == "argmax" else 1,)

    @property
    def flops_per_element(self) -> float:
        """Two for sums of squares and argmax, otherwise one."""
        return 2.0 if self.kind in ("sumsq", "argmax") else 1.0

    @property
    def _out_shape(self) -> tuple[int, ...]:
        if not self.reduction_size:
            return (self.parallel_extent,)
        parts = self._reduced_extent // self.length
        return (self.rows, parts) if self.reduces_contiguous else (parts, self.columns)

    def operands(self) -> tuple[Operand, ...]:
        """Return x and out. out has one value per row or column, or several values with ``reduction_size``."""
        return (
            Operand("x", "input", self.input_dtype, (self.rows, self.columns)),
            Operand("out", "output", self.out_dtype, self._out_shape),
        )

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal values, which are scaled down if a sum of squares would overflow f16."""
        overflows = self.kind == "sumsq" and self.out == "f16"
        scale = min(1.0, math.sqrt(_LARGEST_F16_SUM / self.length)) if overflows else 1.0
        rng = np.random.default_rng(seed)
        return {"x": standard_normal(rng, (self.rows, self.columns), self.input_dtype, scale)}

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return edge cases for comparisons (max, argmax) or for sums.

        Cases that most often reveal faults are first.
        """
        if self.kind in ("max", "argmax"):
            first = (cases.NEGATIVE, cases.TIES, cases.MINUS_INFINITY, cases.ONE_FINITE, cases.NAN, cases.LARGEST)
            return (*first, cases.INFINITY, cases.ZERO, cases.SUBNORMAL)
        return (cases.INTEGERS, cases.NAN, cases.INFINITY, cases.HUGE, cases.NEGATIVE, cases.ZERO, cases.SUBNORMAL)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield one smaller problem. Each row has the elements of x that are reduced for one of ``positions``."""
        along = (np.arange(self.length), self.inner)
        x = grid(positions // self.inner * self.length * self.inner + positions % self.inner, along)
        rows = replace(self, rows=positions.size, columns=self.length, axis="row", reduction_size=0)
        yield ProblemPart(rows, {"x": x}, {"out": positions})

    def _view(self, inputs: Mapping[str, Array]) -> FloatArray:
        """Return x in float64, with the reduced axis last."""
        x = self._load(inputs, "x")
        if self.reduces_contiguous:
            return x.reshape(self.parallel_extent, self.length)
        return x.reshape(self.outer, self.length, self.inner).swapaxes(1, 2)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the reduction in float64. For argmax, this is the index."""
        x = self._view(inputs)
        with np.errstate(invalid="ignore"):
            result = {
                "sum": lambda: x.sum(-1),
                "mean": lambda: x.mean(-1),
                "sumsq": lambda: np.square(x).sum(-1),
                "max": lambda: x.max(-1),
                "argmax": lambda: x.argmax(-1).astype(np.float64),
            }[self.kind]()
        return {"out": result.reshape(self._out_shape)}

    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Return the rounding-error bound per element of out.

        A maximum only has the error of rounding to the output type, and argmax is exact. Let s = sqrt(sum x^2). No
        partial sum of random inputs exceeds P = 4 s + |sum x|. The bound is ``line_growth`` times 2^-24 P. Partial sums
        of a sum of squares never exceed the result, so P is the result. Sums of integers up to 2^24 are exact.
        """
        if self.kind == "argmax":
            return np.zeros_like(inputs["x"], dtype=np.float64, shape=self._out_shape)
        x = self._view(inputs)
        result = reference.reshape(x.shape[:-1])
        growth = line_growth(x)[..., 0] * _UNIT
        with np.errstate(invalid="ignore"):
            squares = np.square(x).sum(-1)
            if self.kind == "max":
                bound = np.zeros_like(result)
                same = self.out == self.dtype or self.out == "f32"
                allowed = bound if same else self._rounded(bound, result)
            elif self.kind == "sumsq":
                exact = cases.whole_lines(x) & (squares <= cases.EXACT)
                allowed = self._rounded(np.where(exact, 0.0, growth * squares), result)
            else:
                exact = cases.whole_lines(x) & (np.abs(x).sum(-1) <= cases.EXACT)
                least = _UNIT * np.abs(x.sum(-1)) if self.kind == "mean" else 0.0  # rounding error of the division
                bound = np.where(exact, least, growth * (4.0 * np.sqrt(squares) + np.abs(x.sum(-1))))
                allowed = self._rounded(bound / (self.length if self.kind == "mean" else 1.0), result)
        return allowed.reshape(self._out_shape)


@dataclass(frozen=True)
class Softmax(RowProblem):
    """``out = exp(x - max) / sum(exp(x - max))`` for each row, computed in f32. No finite input overflows.

    If all elements of a row are -infinity, or one is +infinity or NaN, the result is NaN, as for this formula in numpy.
    Raises ValueError as RowProblem does.
    """

    operator: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "softmax of every row"
    passes: ClassVar[tuple[str, ...]] = PASSES

    def functor(self, passes: str) -> str:
        """Return the C++ type for one or two passes."""
        return "SoftmaxOnePass" if passes == "one" else "SoftmaxTwoPasses"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return the words of each pass's state: maximum and sum in one pass, or one of them in each of two passes."""
        return (2,) if passes == "one" else (1, 1)

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return edge cases for shifts, infinities and overflow of the exponential."""
        first = (cases.SHIFTED, cases.MINUS_INFINITY, cases.ONE_FINITE, cases.RISING, cases.NAN, cases.LARGEST)
        return (*first, cases.INFINITY, cases.HUGE, cases.ZERO, cases.APART)

    @property
    def flops_per_element(self) -> float:
        """Number of operations for maximum, difference, exponential, sum and quotient."""
        return 5.0  # 1 for the maximum, 3 for difference, exponential and sum, 1 for the quotient

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the softmax of each row in float64."""
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore"):
            e = np.exp(x - x.max(-1, keepdims=True))
            return {"out": e / e.sum(-1, keepdims=True)}

    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Return the rounding-error bound per element of out.

        Each exponential has a relative error of 2^-22. Its exponent is rounded twice, which adds 2^-23 for each unit of
        max - x. A kernel that reads x once also rescales the sum, at most some tens of times. The bound for all of
        these errors is 2^-17, plus 2^-22 for each unit of max - x. The sum adds ``line_growth`` rounding errors.
        Subnormal exponentials may be flushed to zero, with an absolute error of 2^-125.
        """
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore"):
            below = x.max(-1, keepdims=True) - x
            far = np.where(np.isfinite(below), below, 0.0)
            mean_far = (reference * far).sum(-1, keepdims=True)
            relative = 2.0**-17 + 2.0**-22 * (far + mean_far) + line_growth(x) * _UNIT
            return self._rounded(reference * relative + 2.0**-125, reference)


@dataclass(frozen=True)
class _Norm(RowProblem):
    eps: float = option("number added to the mean square before the square root", 1e-5)
    has_weight: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.eps, bool) or not isinstance(self.eps, (int, float)):
            raise ValueError(f"eps must be a number, not {self.eps!r}")
        if self.eps != 0.0 and not _LEAST_EPS <= self.eps <= 1e30:
            least = f"{_LEAST_EPS:.3g} (the smallest normal f32)"
            raise ValueError(f"eps must be 0, or from {least} to 1e30, not {self.eps!r}")
        object.__setattr__(self, "eps", float(self.eps))

    @property
    def epsilon(self) -> float:
        return self.eps

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        first = (cases.FAR, cases.NAN, cases.HUGE, cases.INTEGERS, cases.INFINITY)
        if self.eps == 0.0:  # if eps is 0, omit constant lines, as their deviation is 0
            return first
        return (cases.around_eps(self.eps), *first, cases.ZERO, cases.SUBNORMAL)


@dataclass(frozen=True)
class RmsNorm(_Norm):
    """``out = x / sqrt(mean(x^2) + eps) * weight`` for each row. ``weight`` has one element of x's type per column.

    Raises ValueError as RowProblem does, and if eps is negative or NaN.
    """

    operator: ClassVar[str] = "rmsnorm"
    summary: ClassVar[str] = "rows divided by their root mean square, times a weight"

    def functor(self, passes: str) -> str:
        """Return the C++ type of the operator, which has one pass."""
        return "RmsNorm"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return 1: the state is the sum of squares."""
        return (1,)

    @property
    def flops_per_element(self) -> float:
        """Number of operations for square, sum and two products."""
        return 4.0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the norm of each row in float64."""
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = 1.0 / np.sqrt(np.square(x).mean(-1, keepdims=True) + self.eps)
            x = x * scale
            x *= self._load(inputs, "weight")
            return {"out": x}

    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Return the allowed errors.

        The sum of squares has at most ``line_growth`` rounding errors. The square root halves their effect on the
        result. 16 rounding errors are added for the reciprocal square root and the products. If x * scale is subnormal,
        its rounding error of up to 2^-149 is multiplied by the weight. The error of rounding to the output type is
        added.
        """
        relative = (line_growth(self._load(inputs, "x")) / 2 + 16.0) * _UNIT
        with np.errstate(invalid="ignore"):
            bound = np.abs(reference)
            bound *= relative
            bound += SMALLEST["f32"] * np.abs(self._load(inputs, "weight"))
            return self._rounded(bound, reference)


class _Moments(NamedTuple):
    """Statistics of rows in float64.

    The fields are the means, the centred rows, the reciprocals of the deviations, and the roots of the sums of squares.
    """

    mean: FloatArray
    centered: FloatArray
    scale: FloatArray
    norm: FloatArray


@dataclass(frozen=True)
class LayerNorm(_Norm):
    """``out = (x - mean) / sqrt(variance + eps) * weight + bias`` for each row.

    The variance of a row is the mean of squared deviations. Weight and bias have one element of x's type per column.

    Raises:
        ValueError: As for RowProblem; or eps is negative or NaN; or eps is 0 and there is a single column, whose
            variance is 0.
    """

    operator: ClassVar[str] = "layernorm"
    summary: ClassVar[str] = "rows minus their mean, divided by their standard deviation, times a weight, plus a bias"
    has_bias: ClassVar[bool] = True
    passes: ClassVar[tuple[str, ...]] = PASSES

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns == 1 and self.eps == 0.0:
            raise ValueError("eps must be positive if a row has one column, because the variance is 0")

    def functor(self, passes: str) -> str:
        """Return the C++ type for one or two passes."""
        return "LayerNormOnePass" if passes == "one" else "LayerNormTwoPasses"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return three words for one pass (count, mean, squared deviations), or one word for each of two passes."""
        return (3,) if passes == "one" else (1, 1)

    @property
    def flops_per_element(self) -> float:
        """Number of operations for mean, variance, scale and shift."""
        return 7.0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the norm of each row in float64."""
        return {"out": self._normalized(inputs, self._moments(inputs))}

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the reference and the error bound. The moments of the rows are computed only once for both."""
        moments = self._moments(inputs)
        reference = self._normalized(inputs, moments)
        return {"out": reference}, {"out": self._allowed(inputs, reference, moments)}

    def _moments(self, inputs: Mapping[str, Array]) -> _Moments:
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = x.mean(-1, keepdims=True)
            centered = x - mean
            variance = np.square(centered).mean(-1, keepdims=True)
            norm = np.sqrt(np.square(x, out=x).sum(-1, keepdims=True))
            return _Moments(mean, centered, 1.0 / np.sqrt(variance + self.eps), norm)

    def _normalized(self, inputs: Mapping[str, Array], moments: _Moments) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            normalized = moments.centered * moments.scale
            normalized *= self._load(inputs, "weight")
            normalized += self._load(inputs, "bias")
            return normalized

    def _allowed(
        self, inputs: Mapping[str, Array], reference: FloatArray, moments: _Moments | None = None
    ) -> FloatArray:
        """Return the rounding-error bound per element of out.

        - Mean: with s = sqrt(sum x^2), the error is ``line_growth`` 2^-24 (4 s + |sum x|) / columns, plus one rounding
          error. This error of the mean changes x - mean, and its square changes the variance.
        - Variance: this sum of squares has up to twice ``line_growth`` rounding errors, because one-pass sums also
          merge partial results. The square root halves these errors.
        - All other operations: 16 rounding errors are allowed.
        - Subnormal means: each rounding error of the mean, and the rounding error of (x - mean) * scale, is up to
          2^-149, regardless of the size of the value.
        """
        weight, bias = self._load(inputs, "weight"), self._load(inputs, "bias")
        mean, centered, scale, norm = moments or self._moments(inputs)
        growth = line_growth(centered)
        with np.errstate(invalid="ignore", divide="ignore"):
            size = 4.0 * norm / self.columns + np.abs(mean)
            off = _UNIT * (growth * size + np.abs(mean)) + growth * SMALLEST["f32"]
            relative = (growth + 16.0) * _UNIT + 0.5 * np.square(off * scale)
            of_product = reference - bias
            np.abs(of_product, out=of_product)
            of_product *= relative
            of_product += 4.0 * _UNIT * np.abs(bias)
            bound: FloatArray = np.abs(weight) * (scale * off + SMALLEST["f32"])
            bound += of_product
            return self._rounded(bound, reference)
