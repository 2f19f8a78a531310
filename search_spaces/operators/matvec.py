"""Definition of ``out[m, n] = sum_k x[m, k] * w[n, k]`` for small m, and the required accuracy of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import FLOAT_DTYPES, SMALLEST, DType, dtype
from search_spaces.launches.operand import Operand
from search_spaces.operators import input_cases as cases
from search_spaces.operators.part import Indices, grid, rectangles
from search_spaces.operators.problem import Problem, ProblemPart, option

INPUTS = ("f16", "bf16")
MOST_ROWS = 16


@dataclass(frozen=True)
class Matvec(Problem):
    """``out = x @ w.T`` with row-major x (m x k), w (n x k) and out (m x n), where m is at most 16.

    The field ``x`` is the type of x and w, and the field ``out`` is the type of out. Sums are f32 (IREE issue 22153, "a
    typical matvec"). The constructor accepts ``dtype`` as another name of ``x``. Raises ValueError if a size is below
    1, there are more than 16 rows, or a type is unknown.
    """

    operator: ClassVar[str] = "matvec"
    summary: ClassVar[str] = "out = x @ w.T for up to 16 rows of x"

    m: int = option("rows of x and out, at most 16", flag="-m")
    n: int = option("rows of w, columns of out", flag="-n")
    k: int = option("columns of x and w", flag="-k")
    x: str = option("type of x and w", "f16", flag="--dtype", choices=INPUTS)
    out: str = option("type of out (default: the type of x)", "", choices=tuple(FLOAT_DTYPES))

    dtype: InitVar[str] = ""

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The number of rows of x, which are independent of each other; at most 16."""
        return {"m": 16}

    def __post_init__(self, dtype_: str) -> None:
        self._take_dtype("x", dtype_)
        self._take_types("out")
        self._take_defaults(out=self.x)
        self._take_extents("m", "n", "k")
        if self.m > MOST_ROWS:
            raise ValueError(f"m must be at most {MOST_ROWS}, not {self.m}: use matmul for more rows")
        if self.n * self.k >= 2**40:
            raise ValueError("w is too large: keep it under 2^40 elements")
        if self.x not in INPUTS:
            raise ValueError(f"x must be {' or '.join(INPUTS)}, not {self.x!r}")
        dtype(self.out)

    @property
    def signed_zeros(self) -> bool:
        """Always True, because a sum that begins at +0 is never -0."""
        return True

    @property
    def input_dtype(self) -> DType:
        """Type of x and w."""
        return FLOAT_DTYPES[self.x]

    @property
    def out_dtype(self) -> DType:
        """Type of out."""
        return FLOAT_DTYPES[self.out]

    @property
    def flops(self) -> float:
        """Number of operations of the product: 2 m n k."""
        return 2.0 * self.m * self.n * self.k

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w and out."""
        return (
            Operand("x", "input", self.input_dtype, (self.m, self.k)),
            Operand("w", "input", self.input_dtype, (self.n, self.k)),
            Operand("out", "output", self.out_dtype, (self.m, self.n)),
        )

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return the edge cases for lines of w. As x has only positive integers, each line affects all rows of out."""
        lines = (cases.INTEGERS, cases.NAN, cases.MINUS_INFINITY, cases.INFINITY, cases.ZERO, cases.HUGE)
        return (*lines, cases.SUBNORMAL)

    def stress_inputs(self, seed: int) -> Iterator[cases.StressInputs]:
        """Yield inputs with the input cases in w, and small integers in x."""
        rng = np.random.default_rng((seed, 1))
        for names, lines in cases.mixed(self.input_cases(), rng, self.n, self.k, self.input_dtype):
            x = rng.integers(1, 4, (self.m, self.k)).astype(np.float64)
            if self.m > 1:  # NaN after the end of k exposes an out-of-bounds read that contributes to a result
                x[0, 0] = np.nan
            stored = {"x": self.input_dtype.store(x), "w": self.input_dtype.store(lines)}
            yield cases.StressInputs(names, stored)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield problems that each compute a rectangle of out."""
        depth = np.arange(self.k)
        for rows, columns in rectangles(positions, self.n):
            inputs = {"x": grid(0, (rows, self.k), (depth, 1)), "w": grid(0, (columns, self.k), (depth, 1))}
            problem = replace(self, m=rows.size, n=columns.size)
            yield ProblemPart(problem, inputs, {"out": grid(0, (rows, self.n), (columns, 1))})

    def _values(self, inputs: Mapping[str, Array]) -> tuple[FloatArray, FloatArray]:
        return self.input_dtype.load(inputs["x"]), self.input_dtype.load(inputs["w"])

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``x @ w.T`` in float64."""
        x, w = self._values(inputs)
        with np.errstate(invalid="ignore"):  # no warning: the sum of infinities of opposite signs is NaN
            return {"out": x @ w.T}

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return a bound of the rounding error for each element of out.

        Products of two 16-bit floats are exact in f32. Let s = sqrt(sum_k x^2 w^2), the size of the sum's random walk.
        No partial sum of random inputs exceeds P = 6 s + 2 |x @ w|, so each addition has an error of at most 2^-24 P.
        The error of k additions, in any order, is at most k 2^-24 P. Because the signs of the errors are random, it is
        also at most 10 sqrt(k) 2^-24 P (Higham and Mary, 2019, theorem 2.4: exceeded with probability e^-50). Splits
        and subgroups add a few additions. Sums of integers up to 2^24 are exact. Rounding to the output type adds its
        unit roundoff.
        """
        x, w = self._values(inputs)
        with np.errstate(invalid="ignore"):
            result = np.abs(x @ w.T)
            partial = 6.0 * np.sqrt(np.square(x) @ np.square(w).T) + 2.0 * result
            exact = cases.whole_lines(x)[:, None] & cases.whole_lines(w) & (np.abs(x) @ np.abs(w).T <= cases.EXACT)
        bound = np.where(exact, 0.0, (min(self.k, 10.0 * self.k**0.5) + 16.0) * 2.0**-24 * partial)
        roundoff = self.out_dtype.unit_roundoff
        return {"out": bound + roundoff * (result + bound) + SMALLEST[self.out]}
