"""Formats of quantised weights: arrays, reference and tile-program code that several matmuls share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.block_scaling import FP4, FP4_EXPONENT
from search_spaces.hardware.dtypes import E4M3, F32, FLOAT_DTYPES, I8, I32, U8, DType
from search_spaces.launches.operand import Operand
from search_spaces.layouts.memory_order import FRAGMENT_BYTES, FRAGMENT_WORDS, MemoryOrder
from search_spaces.operators.input_cases import StressInputs
from search_spaces.tile_operators.packed_weights import SPAN, pack_fragments, unpack_int4

WEIGHTS = {"int4": I32, "int8": I8, "e4m3": E4M3, "nvf4": I32}
GROUPS = (0, 16, 32, 64, 128)
TYPES = ("f16", "bf16")
LAYOUTS = ("rows", "fragments")
FP4_GROUP = 16
DEPTH = 16  # depth of mma.sync; also the number of half words in a span (eight words) of four-bit numbers
TIMES = 16  # converting four-bit numbers to f16 multiplies them by this, to save shifts; scales are divided by it
MIDDLE = 8  # zero point of int4 if there is no array of zero points


@dataclass(frozen=True)
class WeightFormat:
    """Format of a quantised (n, k) matrix of weights, each row of which yields one column of the result.

    Attributes:
        weights: Name of the format, a key of ``WEIGHTS``.
        group: Number of columns that share a scale; 0 if all do.
        zero_points: 1 if int4 has an array of zero points, else 0.
        dtype: Type of the scales, and of the operands of products.
        layout: "rows", or "fragments" for the order of ``pack_fragments``.
    """

    weights: str
    group: int
    zero_points: int
    dtype: str
    layout: str

    def verify(self, k: int, group_name: str = "group") -> None:
        """Check the format of matrices with ``k`` columns.

        Args:
            k: Columns of the matrix.
            group_name: Name of the option ``group`` in messages.

        Raises:
            ValueError: An unknown value, or an unsupported combination.
        """
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be {', '.join(WEIGHTS)}, not {self.weights!r}")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.group not in GROUPS:
            raise ValueError(f"{group_name} must be {', '.join(map(str, GROUPS))}, not {self.group!r}")
        if (self.group == FP4_GROUP) != (self.weights == "nvf4"):
            raise ValueError(f"{group_name} must be {FP4_GROUP} for nvf4, and another size otherwise, not {self.group}")
        if 0 < self.group < SPAN and not self.in_words:
            raise ValueError(f"{group_name} must be 0, 64 or 128 for {self.weights}, not {self.group}")
        if self.zero_points not in (0, 1) or (self.zero_points and self.weights != "int4"):
            raise ValueError(f"zero_points must be 0, or 1 for int4, not {self.zero_points!r} for {self.weights}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be {' or '.join(LAYOUTS)}, not {self.layout!r}")
        if k % SPAN or (self.group and k % self.group):
            raise ValueError(f"k must be a multiple of {max(SPAN, self.group)}, not {k}")

    @staticmethod
    def name_of(w: str, scale: str) -> str:
        """Return the name of the format of weights of type ``w`` with scales of type ``scale``."""
        weights = {"i32": "int4", "i8": "int8"}.get(w, w)
        return "nvf4" if (weights, scale) == ("int4", "e4m3") else weights

    @staticmethod
    def group_of(k: int, scales: int) -> int:
        """Return how many of ``k`` columns share a scale, given the number of scales. Raises ValueError."""
        if not scales or k % scales:
            raise ValueError(f"x has {k} columns, so scale must have one row per group of columns, not {scales} rows")
        return 0 if scales == 1 else k // scales

    @staticmethod
    def layout_of(weights: str, columns: int, k: int) -> str:
        """Return the layout of weights, given the number of columns of the stored array."""
        return "rows" if columns == (k // 8 if WEIGHTS.get(weights) == I32 else k) else "fragments"

    @property
    def stored(self) -> DType:
        """Type of the array of weights."""
        return WEIGHTS[self.weights]

    @property
    def in_words(self) -> bool:
        """True if the array consists of words of eight weights."""
        return self.stored == I32

    @property
    def order(self) -> MemoryOrder | None:
        """Memory order of the array; None for row-major order."""
        return None if self.layout == "rows" else FRAGMENT_WORDS if self.in_words else FRAGMENT_BYTES

    @property
    def sum_group(self) -> int:
        """Number of columns whose products are summed before scaling; 0 for all. nvf4 weights are scaled first."""
        return 0 if self.weights == "nvf4" else self.group

    def scales(self, k: int) -> int:
        """Return the number of scales per row."""
        return k // self.group if self.group else 1

    def spans(self, k: int) -> tuple[int, ...]:
        """Return candidates for the number of columns per iteration of a tile program."""
        return (SPAN, 2 * SPAN) if k % (2 * SPAN) == 0 and self.sum_group in (0, 2 * SPAN) else (SPAN,)

    def rows(self, n: int) -> int:
        """Return the number of stored rows of a matrix. Packed fragments are padded to whole tiles."""
        return n if self.order is None else -(-n // self.order.rows) * self.order.rows

    def columns(self, k: int) -> int:
        """Return the number of columns of the stored matrix. If weights are packed into words, count words."""
        return k // 8 if self.in_words else k

    def operands(self, n: int, k: int, matrices: int | None = None, scale_name: str = "scale") -> list[Operand]:
        """Return the arrays of a matrix, or of several matrices.

        Args:
            n: Rows of a matrix.
            k: Columns of a matrix.
            matrices: Number of matrices, which is the first extent of each array; None for a single matrix.
            scale_name: Name of the scales.

        Returns:
            w, the scales, and zeros or global_scale if the format has them.
        """
        lead = () if matrices is None else (matrices,)
        shape = (self.rows(n), self.columns(k))
        if self.order is not None:
            shape = self.order.shape(*shape)
        scales = (*lead, self.scales(k), n)
        operands = [
            Operand("w", "input", self.stored, (*lead, *shape)),
            Operand(scale_name, "input", E4M3 if self.weights == "nvf4" else FLOAT_DTYPES[self.dtype], scales),
        ]
        if self.zero_points:
            operands.append(Operand("zeros", "input", U8, scales))
        if self.weights == "nvf4":
            operands.append(Operand("global_scale", "input", F32, lead or (1,)))
        return operands

    def pack(self, weights: Array, n: int, k: int, matrices: int | None = None) -> Array:
        """Return weights in the order of ``layout``.

        Args:
            weights: Words of ``pack_int4``, or numbers of int8 or e4m3, with a leading dimension if there are several
                matrices.
            n: Rows of a matrix.
            k: Columns of a matrix.
            matrices: Number of matrices; None for a single matrix.

        Returns:
            The packed weights.

        Raises:
            ValueError: Weights of another shape.
        """
        shape = (n, self.columns(k)) if matrices is None else (matrices, n, self.columns(k))
        if weights.shape != shape:
            raise ValueError(f"w must be {shape} to be packed, not {weights.shape}")
        return weights if self.order is None else pack_fragments(weights)

    def dequantised(
        self, w: Array, scale: FloatArray, zeros: FloatArray | None, global_scale: float, n: int, k: int
    ) -> FloatArray:
        """Return the (n, k) weights of one matrix in float64.

        Args:
            w: The stored array.
            scale: Scales, (scales, n) of float64.
            zeros: Zero points of float64, or None.
            global_scale: Factor of all weights of nvf4.
            n: Rows of the matrix.
            k: Columns of the matrix.
        """
        stored = np.asarray(w)
        if self.order is not None:
            stored = self.order.unpack(stored, (self.rows(n), self.columns(k)))[:n]
        zero = np.zeros(scale.shape) if zeros is None else zeros
        width = self.group or k
        with np.errstate(invalid="ignore"):
            if self.weights == "int4":
                numbers = unpack_int4(stored).astype(np.float64)
                zero = zero if zeros is not None else np.full(scale.shape, float(MIDDLE))
            elif self.weights == "nvf4":
                codes = unpack_int4(stored)
                numbers = np.where(codes > 7, -1.0, 1.0) * FP4[codes & 7] * global_scale
            else:
                numbers = np.asarray(self.stored.load(stored), dtype=np.float64)
            weights: FloatArray = (numbers - zero.T.repeat(width, axis=1)) * scale.T.repeat(width, axis=1)
        return weights

    def random_arrays(self, operands: Mapping[str, Operand], seed: int, scale_name: str = "scale") -> dict[str, Array]:
        """Return random positive scales, words of random bits and zero points from 0 to 15, by name."""
        rng = np.random.default_rng((seed, 3))
        of_scale = operands[scale_name]
        arrays: dict[str, Array] = {scale_name: of_scale.dtype.store(rng.uniform(0.005, 0.05, of_scale.shape))}
        if self.in_words:
            words = rng.integers(-(2**31), 2**31, operands["w"].shape, dtype=np.int64)
            arrays["w"] = words.astype(np.int32)
        if self.zero_points:
            arrays["zeros"] = rng.integers(0, 16, operands["zeros"].shape).astype(np.uint8)
        return arrays

    def edge_arrays(self, inputs: Mapping[str, Array], scale_name: str = "scale") -> Iterator[StressInputs]:
        """Yield inputs with the smallest and largest numbers and zero points, and scales of very different sizes.

        Args:
            inputs: Ordinary inputs. Arrays without edge cases stay unchanged.
            scale_name: Name of the scales.
        """
        w = inputs["w"]
        if self.in_words:
            for name, word in (("smallest", 0), ("largest", -1)):
                yield StressInputs((f"w: {name} numbers",), {**inputs, "w": np.full_like(w, word)})
        if self.zero_points:
            zeros = np.indices(inputs["zeros"].shape).sum(axis=0) % 2 * 15
            yield StressInputs(("zeros: 0 and 15 alternate",), {**inputs, "zeros": zeros.astype(np.uint8)})
        scale = inputs[scale_name]
        dtype = E4M3 if self.weights == "nvf4" else FLOAT_DTYPES[self.dtype]
        exponents = np.array([-9.0, 3.0] if self.weights == "nvf4" else [-14.0, 9.0])
        alternating = np.exp2(exponents[np.indices(scale.shape).sum(axis=0) % 2])
        yield StressInputs(
            (f"{scale_name}: small and large alternate",), {**inputs, scale_name: dtype.store(alternating)}
        )


@dataclass(frozen=True)
class StoredMatrix:
    """A quantised matrix in a tile program.

    Attributes:
        format: Format of the matrix.
        p: Builder of the program.
        w: Array of the weights.
        scale: Array of the scales.
        zeros: Array of the zero points, or None.
        global_scale: Array of the factors of nvf4, or None.
        first_row: Row of ``w`` at which the matrix begins.
        number: Position of the matrix's factor in ``global_scale``.
    """

    format: WeightFormat
    p: Any
    w: Any
    scale: Any
    zeros: Any = None
    global_scale: Any = None
    first_row: Any = 0
    number: Any = 0

    def factor(self, row: Any, rows: int, at: Any) -> Any:
        """Return a column of factors for the sums of ``rows`` rows, for the group that begins at column ``at``."""
        p, f = self.p, self.format
        if f.weights == "nvf4":
            return p.load(p.window(self.global_scale, (0, self.number), (1, 1))) * 2.0**-FP4_EXPONENT
        column = at // f.group if f.group else 0
        scales = p.load(p.window(self.scale, (row, column), (rows, 1), turned=True)).cast("f32")
        return scales * (1 / TIMES) if f.weights == "int4" and f.dtype == "f16" else scales

    def add_products(
        self,
        sums: Any,
        row: Any,
        at: Any,
        shape: tuple[int, int],
        part: Callable[[Any, int], Any],
        scaled: bool = False,
    ) -> None:
        """Add the product of a tile of weights and another operand to ``sums``, which has as many rows as the tile.

        Args:
            sums: State of the sums. This function scales them if there are groups; otherwise, ``result`` does.
            row: First row of the tile in the matrix.
            at: First column of the tile.
            shape: Rows and columns of the tile.
            part: Function that returns rows of the other operand, given the first row and the number of rows.
            scaled: True if weights are scaled and rounded before the product; False if sums are scaled after it.
        """
        p, f, (rows, columns) = self.p, self.format, shape
        depth = min(f.sum_group or columns, columns)
        if f.in_words:
            words = p.load(p.window(self.w, (self.first_row + row, at // 8), (rows, columns // 8)))
        for first in range(0, columns, depth):
            here = at + first
            if f.weights == "nvf4":
                steps = here // FP4_GROUP
                of_words = p.load(p.window(self.scale, (row, steps), (rows, depth // FP4_GROUP), turned=True))
                numbers = p.fp4(words, of_words, to=f.dtype)
            elif f.weights != "int4":
                numbers = (
                    p.load(p.window(self.w, (self.first_row + row, here), (rows, depth))).cast("f32").cast(f.dtype)
                )
            else:
                zero = MIDDLE
                if self.zeros is not None:
                    column = here // f.group if f.group else 0
                    zero = p.load(p.window(self.zeros, (row, column), (rows, 1), turned=True)).cast("i32")
                own = range(4) if depth >= SPAN else range(first // DEPTH, (first + depth) // DEPTH)
                numbers = p.nibbles(words, own, zero=zero, times=TIMES if f.dtype == "f16" else 1, to=f.dtype)
            if scaled:
                numbers = (numbers.cast("f32") * self.factor(row, rows, here)).cast(f.dtype)
            factors = part(here, depth)
            if f.sum_group and not scaled:
                sums.set(sums + p.mma(numbers, factors) * self.factor(row, rows, here))
            else:
                sums.set(p.mma(numbers, factors, sums))

    def result(self, sums: Any, row: Any, rows: int) -> Any:
        """Return the scaled sums of all columns."""
        return sums if self.format.sum_group else sums * self.factor(row, rows, 0)
