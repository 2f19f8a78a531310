"""Add a residual, apply the RMS norm, and quantise the result to 8 bits with one scale per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import E4M3, F32, FLOAT_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut

LARGEST = 448.0  # largest number of e4m3
LEAST_SCALE = 2.0**-40  # scale of a row of zeros, so that quotients are not NaN
MOST_COLUMNS = 16384  # limit of columns, as a block holds a whole row in registers


@dataclass(frozen=True)
class RmsNormQuantize(TileProblem):
    """``total = x + residual``, its RMS norm times weight, and the norm as e4m3 with one scale per row.

    Arrays: x and residual (rows, columns), weight (columns,), of ``dtype``; total (rows, columns) of ``dtype``, out
    (rows, columns) of e4m3, scale (rows,) of f32. The norm uses the total before it is rounded. scale is the largest
    magnitude in the row's norm divided by 448, and ``out * scale`` approximates the norm.

    The tolerance is the interpreter's bound. Raises ValueError for sizes below 1, and more than 16384 columns.
    """

    operator: ClassVar[str] = "rmsnorm_quantize"
    summary: ClassVar[str] = "x + residual, its RMS norm as e4m3, and a scale for each row"
    inputs: ClassVar[tuple[str, ...]] = ("x", "residual", "weight")
    outputs: ClassVar[int] = 3
    call_options: ClassVar[Mapping[str, Any]] = {"eps": 1e-5}
    size_fields: ClassVar[tuple[str, ...]] = ("rows", "columns")
    scalar_fields: ClassVar[tuple[str, ...]] = ("eps",)

    rows: int = option("rows of x")
    columns: int = option("columns of x")
    dtype: str = option("type of x, residual, weight and total", "bf16", choices=("f16", "bf16"))
    eps: float = option("added to the mean of the squares", 1e-5)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``rows``."""
        return {"rows": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("rows", "columns")
        if self.dtype not in ("f16", "bf16"):
            raise ValueError(f"dtype must be f16 or bf16, not {self.dtype!r}")
        if self.columns > MOST_COLUMNS:
            raise ValueError(f"columns must be at most {MOST_COLUMNS}, not {self.columns}")
        if not 0.0 < self.eps < 1e30:
            raise ValueError(f"eps must be above 0, not {self.eps}")

    def operands(self) -> tuple[Operand, ...]:
        """Return x, residual and weight, then total, out and scale."""
        own, matrix = FLOAT_DTYPES[self.dtype], (self.rows, self.columns)
        return (
            Operand("x", "input", own, matrix),
            Operand("residual", "input", own, matrix),
            Operand("weight", "input", own, (self.columns,)),
            Operand("total", "output", own, matrix),
            Operand("out", "output", E4M3, matrix),
            Operand("scale", "output", F32, (self.rows,)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for x (rows, columns)."""
        if len(shapes["x"]) != 2:
            raise ValueError(f"rmsnorm_quantize takes a matrix x (rows, columns), not {shapes['x']}")
        return cls(*shapes["x"], dtype=types["x"], **options)

    @property
    def flops(self) -> float:
        """Number of operations: about six per element."""
        return 6.0 * self.rows * self.columns

    def views(self) -> Mapping[str, str]:
        """Return the extents m (rows) and n (columns) of each operand."""
        return dict.fromkeys(("x", "residual", "total", "out"), "m n") | {"weight": "n", "scale": "m"}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes m and n."""
        return {"m": self.rows, "n": self.columns}

    @staticmethod
    def compute(p: Any, o: Any, x: Any, residual: Any, weight: Any, total: Any, out: Any, scale: Any) -> None:
        """Write the tile program: each block holds a few whole rows in registers."""
        m, n = x.shape
        bm, width = p.choose(bm=(1, 2, 4)), p.cover(n)
        (i,) = p.blocks((m,), (bm,))
        both = [p.load(p.window(array, (i, 0), (bm, width))).cast("f32") for array in (x, residual)]
        added = both[0] + both[1]
        p.store(added.cast(o.dtype), p.window(total, (i, 0), (bm, width)))
        mean = p.reduction("add", added * added, dim=1) * (1.0 / n)
        norm = added * p.rsqrt(mean + o.eps) * p.load(p.window(weight, (0, 0), (1, width))).cast("f32")
        sizes = p.where(p.columns(0, width) < n, p.absolute(norm), -inf)
        most = p.maximum(p.reduction("maximumf", sizes, dim=1) * (1.0 / LARGEST), LEAST_SCALE)
        p.store(most, p.window(scale, (i, 0), (bm, 1), column=True))
        p.store((norm / most).cast("e4m3"), p.window(out, (i, 0), (bm, width)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return total, the unrounded quotients and the scales in float64."""
        x = self.loaded(inputs)
        with np.errstate(all="ignore"):
            total = x["x"] + x["residual"]
            norm = total / np.sqrt(np.square(total).mean(axis=1, keepdims=True) + self.eps) * x["weight"]
            scale = np.maximum(np.abs(norm).max(axis=1) / LARGEST, LEAST_SCALE)
            return {"total": total, "out": norm / scale[:, None], "scale": scale}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield rows of zeros or tiny numbers, and rows whose first or last element is the largest."""
        dtype, columns = self.operand("x").dtype, np.arange(self.columns)
        x, residual, weight = (self.loaded(inputs)[name] for name in ("x", "residual", "weight"))
        kinds = ("zero rows", "largest last", "tiny rows", "largest first")
        for first in (0, 2):  # so that all kinds occur even if there are only two rows
            kind = (np.arange(self.rows)[:, None] + first) % len(kinds)
            factor = np.choose(kind, (0.0, 1.0, 2.0**-12, 1.0))
            factor = np.where((kind == 1) & (columns == self.columns - 1) | (kind == 3) & (columns == 0), 64.0, factor)
            arrays = {
                "x": (np.abs(x) + 1.0) * factor,
                "residual": np.abs(residual) * factor,
                "weight": np.abs(weight) + 0.5,
            }
            yield StressInputs(
                kinds[first:] + kinds[:first], {**inputs, **{name: dtype.store(a) for name, a in arrays.items()}}
            )

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few rows."""
        return replace(self, rows=cut(self.rows, loops.chosen["bm"]))
