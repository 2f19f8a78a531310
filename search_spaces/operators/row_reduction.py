"""Row reductions and normalisations: their definitions, and the accuracy that a kernel must have.

Every problem has one row-major input ``x`` of rows x columns. A kernel treats it as outer x length x inner: ``length``
elements are reduced to one, or normalised together.
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

_LEAST_EPS = 2.0**-126  # smallest normal f32, because kernels add eps in f32
_PART_ELEMENTS = 2**16
_UNIT = 2.0**-24  # roundoff of f32, the type of all arithmetic
_LARGEST_F16_SUM = 2.0**14  # random inputs are scaled such that a sum of squares has this value if f16 could overflow


@dataclass(frozen=True)
class RowProblem(Problem):
    """Base of these operators' problems.

    Raises ValueError for sizes below 1 or beyond 2^30, arrays of 2^40 elements and more, and unknown types.
    """

    rows: int = option("rows of x")
    columns: int = option("columns of x")
    dtype: str = option("type of x", "f16", choices=tuple(FLOAT_DTYPES))
    out: str = option("type of out; by default that of x", "", choices=tuple(FLOAT_DTYPES))

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

    # Kernel's view

    normalizes: ClassVar[bool] = True  # True if the kernel writes every element, False if one per row
    has_weight: ClassVar[bool] = False
    has_bias: ClassVar[bool] = False
    passes: ClassVar[tuple[str, ...]] = ("one",)

    @property
    def outer(self) -> int:
        """Number of groups of rows that are reduced separately, if columns are reduced; else 1."""
        return 1

    @property
    def length(self) -> int:
        """Number of elements that are reduced to one."""
        return self.columns

    @property
    def inner(self) -> int:
        """Number of columns, if columns are reduced; else 1."""
        return 1

    @property
    def reduces_contiguous(self) -> bool:
        """True if contiguous memory is reduced."""
        return True

    @property
    def parallel_extent(self) -> int:
        """Number of separate reductions for every outer index: rows, or columns."""
        return self.rows

    @property
    def contiguous(self) -> int:
        """Contiguous elements that belong to one reduction, or to neighbouring ones."""
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
        """Number added to the variance, or to the mean of squares; 0 for operators without one."""
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
        """``flops_per_element`` for each element of x."""
        return self.flops_per_element * self.rows * self.columns

    def operands(self) -> tuple[Operand, ...]:
        """Return x and the optional weight and bias, then out of x's shape."""
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
        """Yield x with the input cases in each reduction, and standard normal weights and biases."""
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
        """Yield the rows that contain ``positions``, in groups that fit into a cache."""
        of_position = positions // self.columns
        rows = np.concatenate((of_position[:1], of_position[1:][of_position[1:] != of_position[:-1]]))
        columns = np.arange(self.columns)
        extra = {o.name: columns for o in self.operands() if o.role == "input" and o.name != "x"}
        together = max(1, _PART_ELEMENTS // self.columns)
        for some in np.split(rows, range(together, rows.size, together)):
            x = grid(0, (some, self.columns), (columns, 1))
            yield ProblemPart(replace(self, rows=some.size), {"x": x, **extra}, {"out": x})

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the error bound, which needs the reference."""
        return self.expected(inputs)[1]

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the reference, and the error bound computed from it."""
        reference = self.reference(inputs)
        return reference, {"out": self._allowed(inputs, reference["out"])}

    @abstractmethod
    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Return the tolerance of out, given the reference of out."""

    def _load(self, inputs: Mapping[str, Array], name: str) -> FloatArray:
        return self.input_dtype.load(inputs[name])

    def _rounded(self, bound: FloatArray, result: FloatArray) -> FloatArray:
        """Return ``bound`` of the f32 result plus the error of rounding to the output type."""
        added: FloatArray = np.abs(result) + bound
        added *= self.out_dtype.unit_roundoff
        added += bound
        added += SMALLEST[self.out]
        return added


@dataclass(frozen=True)
class Reduce(RowProblem):
    """One value for every row (``axis`` "row") or every column ("column") of x.

    ``kind`` is sum, max, mean, sumsq (sum of squares) or argmax (index of the first maximum, u32). With
    ``reduction_size`` r (XeTile ``reduction``), each r consecutive elements of the axis become one value, and out is
    rows x columns / r or rows / r x columns; 0 means the whole axis. NaN wins every maximum, as in numpy.

    Raises:
        ValueError: As for RowProblem, and for unknown names and an r that does not divide its axis.
    """

    operator: ClassVar[str] = "reduce"
    summary: ClassVar[str] = "sum, max, mean, sum of squares or argmax of rows or columns"
    normalizes: ClassVar[bool] = False

    out: str = option("type of out; by default that of x, u32 for argmax", "", choices=(*FLOAT_DTYPES, "u32"))
    kind: str = option("kind of the reduction", "sum", choices=KINDS)
    axis: str = option("row or column: the elements that are reduced to one value", "row", choices=AXES)
    reduction_size: int = option("elements that become one value; 0: the whole axis", 0)

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
                raise ValueError(f"out must be u32 for argmax, not {self.out!r}: it is an index")
        else:
            dtype(self.out)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The number of rows if rows are reduced, else the number of columns."""
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
        """Number of columns if columns are reduced, else 1."""
        return 1 if self.reduces_contiguous else self.columns

    @property
    def parallel_extent(self) -> int:
        """Number of reductions for each outer index."""
        return self.rows * self.columns // self.length if self.reduces_contiguous else self.columns

    @property
    def out_dtype(self) -> DType:
        """u32 for argmax, else the type ``out``."""
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
        """Return two words for argmax (value and index), else one."""
        return (2 if self.kind == "argmax" else 1,)

    @property
    def flops_per_element(self) -> float:
        """Two for sums of squares and argmax, else one."""
        return 2.0 if self.kind in ("sumsq", "argmax") else 1.0

    @property
    def _out_shape(self) -> tuple[int, ...]:
        if not self.reduction_size:
            return (self.parallel_extent,)
        parts = self._reduced_extent // self.length
        return (self.rows, parts) if self.reduces_contiguous else (parts, self.columns)

    def operands(self) -> tuple[Operand, ...]:
        """Return x and out: one value per row or column, or several with ``reduction_size``."""
        return (
            Operand("x", "input", self.input_dtype, (self.rows, self.columns)),
            Operand("out", "output", self.out_dtype, self._out_shape),
        )

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, scaled down if a sum of squares would overflow f16."""
        overflows = self.kind == "sumsq" and self.out == "f16"
        scale = min(1.0, math.sqrt(_LARGEST_F16_SUM / self.length)) if overflows else 1.0
        rng = np.random.default_rng(seed)
        return {"x": standard_normal(rng, (self.rows, self.columns), self.input_dtype, scale)}

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return cases for comparisons (max, argmax) or sums, the likeliest faults first."""
        if self.kind in ("max", "argmax"):
            first = (cases.NEGATIVE, cases.TIES, cases.MINUS_INFINITY, cases.ONE_FINITE, cases.NAN, cases.LARGEST)
            return (*first, cases.INFINITY, cases.ZERO, cases.SUBNORMAL)
        return (cases.INTEGERS, cases.NAN, cases.INFINITY, cases.HUGE, cases.NEGATIVE, cases.ZERO, cases.SUBNORMAL)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield the line of x for each of ``positions``, as a row of a smaller problem."""
        along = (np.arange(self.length), self.inner)
        x = grid(positions // self.inner * self.length * self.inner + positions % self.inner, along)
        rows = replace(self, rows=positions.size, columns=self.length, axis="row", reduction_size=0)
        yield ProblemPart(rows, {"x": x}, {"out": positions})

    def _view(self, inputs: Mapping[str, Array]) -> FloatArray:
        """Return x in float64, (outer, length, inner) with the reduced axis moved to the end."""
        x = self._load(inputs, "x")
        if self.reduces_contiguous:
            return x.reshape(self.parallel_extent, self.length)
        return x.reshape(self.outer, self.length, self.inner).swapaxes(1, 2)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the reduction in float64, for argmax the position."""
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
        """Rounding-error bound per element of out.

        Maxima are exact but for rounding to the output type, argmax is exact. With s = sqrt(sum x^2), no partial sum of
        random inputs exceeds P = 4 s + |sum x|; ``sum_growth`` roundings of 2^-24 P add up (of the sum itself for a
        sum of squares, whose partial sums never exceed it). Sums of integers up to 2^24 are exact.
        """
        if self.kind == "argmax":
            return np.zeros_like(inputs["x"], dtype=np.float64, shape=self._out_shape)
        x = self._view(inputs)
        result = reference.reshape(x.shape[:-1])
        growth = sum_growth(self.length) * _UNIT
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
                least = _UNIT * np.abs(x.sum(-1)) if self.kind == "mean" else 0.0  # rounding of the division
                bound = np.where(exact, least, growth * (4.0 * np.sqrt(squares) + np.abs(x.sum(-1))))
                allowed = self._rounded(bound / (self.length if self.kind == "mean" else 1.0), result)
        return allowed.reshape(self._out_shape)


@dataclass(frozen=True)
class Softmax(RowProblem):
    """``out = exp(x - max) / sum(exp(x - max))`` for each row, in f32: no input overflows.

    A row of -infinity, and a row with +infinity or NaN, gives NaN, like this formula in numpy. Raises ValueError as
    RowProblem does.
    """

    operator: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "softmax of every row"
    passes: ClassVar[tuple[str, ...]] = PASSES

    def functor(self, passes: str) -> str:
        """Return the C++ type for one or two passes."""
        return "SoftmaxOnePass" if passes == "one" else "SoftmaxTwoPasses"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return the words of maximum and sum, together or in two passes."""
        return (2,) if passes == "one" else (1, 1)

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return cases for shifts, infinities and overflow of the exponential."""
        first = (cases.SHIFTED, cases.MINUS_INFINITY, cases.ONE_FINITE, cases.RISING, cases.NAN, cases.LARGEST)
        return (*first, cases.INFINITY, cases.HUGE, cases.ZERO, cases.APART)

    @property
    def flops_per_element(self) -> float:
        """Operations of maximum, difference, exponential, sum and quotient."""
        return 5.0  # maximum; difference, exponential, sum; quotient

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the softmax of each row in float64."""
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore"):
            e = np.exp(x - x.max(-1, keepdims=True))
            return {"out": e / e.sum(-1, keepdims=True)}

    def _allowed(self, inputs: Mapping[str, Array], reference: FloatArray) -> FloatArray:
        """Rounding-error bound per element of out.

        Each exponential is off by 2^-22 relative and, as the exponent is rounded twice, 2^-23 for each unit of
        max - x; in one pass the sum is rescaled at most some tens of times: 2^-17 for all of that. The sum adds
        ``sum_growth`` roundings. Subnormal exponentials are zero: 2^-125 absolute.
        """
        x = self._load(inputs, "x")
        with np.errstate(invalid="ignore"):
            below = x.max(-1, keepdims=True) - x
            far = np.where(np.isfinite(below), below, 0.0)
            mean_far = (reference * far).sum(-1, keepdims=True)
            relative = 2.0**-17 + 2.0**-22 * (far + mean_far) + sum_growth(self.columns) * _UNIT
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
        if self.eps == 0.0:  # a constant line would be divided by 0
            return first
        return (cases.around_eps(self.eps), *first, cases.ZERO, cases.SUBNORMAL)


@dataclass(frozen=True)
class RmsNorm(_Norm):
    """``out = x / sqrt(mean(x^2) + eps) * weight`` for each row; the weight has one element of x's type per column.

    Raises ValueError as RowProblem does, and for an eps that is negative or not a number.
    """

    operator: ClassVar[str] = "rmsnorm"
    summary: ClassVar[str] = "rows over their root mean square, times a weight"

    def functor(self, passes: str) -> str:
        """Return the C++ type, which has one pass."""
        return "RmsNorm"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return one word, the sum of squares."""
        return (1,)

    @property
    def flops_per_element(self) -> float:
        """Operations of square, sum and two products."""
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

        Relative to the result, they are half of the ``sum_growth`` roundings of the sum of squares (the square root
        halves them) and 16 more for the reciprocal square root and the products. A subnormal x * scale is rounded by up
        to 2^-149, which the weight multiplies. Rounding to the output type is added.
        """
        relative = (sum_growth(self.columns) / 2 + 16.0) * _UNIT
        with np.errstate(invalid="ignore"):
            bound = np.abs(reference)
            bound *= relative
            bound += SMALLEST["f32"] * np.abs(self._load(inputs, "weight"))
            return self._rounded(bound, reference)


class _Moments(NamedTuple):
    """Statistics of rows in float64.

    They are the means, the centred rows, the reciprocal of the deviation, and the root of the sum of squares.
    """

    mean: FloatArray
    centered: FloatArray
    scale: FloatArray
    norm: FloatArray


@dataclass(frozen=True)
class LayerNorm(_Norm):
    """``out = (x - mean) / sqrt(variance + eps) * weight + bias`` for each row.

    The variance is that of the row (divided by its length). Weight and bias have one element of x's type for each
    column.

    Raises:
        ValueError: As for RowProblem; also for an eps that is negative or NaN, and for an eps of 0 with a single
            column, whose variance is 0.
    """

    operator: ClassVar[str] = "layernorm"
    summary: ClassVar[str] = "rows less their mean, over their deviation, times a weight, plus a bias"
    has_bias: ClassVar[bool] = True
    passes: ClassVar[tuple[str, ...]] = PASSES

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns == 1 and self.eps == 0.0:
            raise ValueError("eps must be positive where a row has one column: its variance is 0")

    def functor(self, passes: str) -> str:
        """Return the C++ type for one or two passes."""
        return "LayerNormOnePass" if passes == "one" else "LayerNormTwoPasses"

    def state_words(self, passes: str) -> tuple[int, ...]:
        """Return three words in one pass (count, mean, squared deviations), else one word for each of two passes."""
        return (3,) if passes == "one" else (1, 1)

    @property
    def flops_per_element(self) -> float:
        """Operations of mean, variance, scale and shift."""
        return 7.0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the norm of each row in float64."""
        return {"out": self._normalized(inputs, self._moments(inputs))}

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return reference and error bound, which share the moments of the rows."""
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

        The mean is off by m = ``sum_growth`` 2^-24 (4 s + |sum x|) / columns with s = sqrt(sum x^2), and by a rounding
        of its own. This changes x - mean, and the variance by its square. The variance, a sum of squares, is off by up
        to twice ``sum_growth`` roundings, because one-pass sums also merge parts; the square root halves this. Another
        16 roundings are allowed for the rest. If means are subnormal, each of their roundings, and that of
        (x - mean) * scale, is up to 2^-149 regardless of their size.
        """
        weight, bias = self._load(inputs, "weight"), self._load(inputs, "bias")
        mean, _, scale, norm = moments or self._moments(inputs)
        growth = sum_growth(self.columns) * _UNIT
        with np.errstate(invalid="ignore", divide="ignore"):
            size = 4.0 * norm / self.columns + np.abs(mean)
            off = growth * size + _UNIT * np.abs(mean) + sum_growth(self.columns) * SMALLEST["f32"]
            relative = growth + 16.0 * _UNIT + 0.5 * np.square(off * scale)
            of_product = reference - bias
            np.abs(of_product, out=of_product)
            of_product *= relative
            of_product += 4.0 * _UNIT * np.abs(bias)
            bound: FloatArray = np.abs(weight) * (scale * off + SMALLEST["f32"])
            bound += of_product
            return self._rounded(bound, reference)
