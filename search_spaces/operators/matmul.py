"""Definition of the batched product ``C = epilogue(A @ B)``, and the accuracy that kernels must have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.block_scaling import BLOCK_FORMATS, FACTOR_DTYPES, BlockFormat
from search_spaces.hardware.dtypes import (
    EIGHT_BIT_DTYPES,
    F16,
    F32,
    FLOAT_DTYPES,
    I32,
    SMALLEST,
    DType,
    dtype,
)
from search_spaces.launches.operand import Operand
from search_spaces.operators import input_cases as cases
from search_spaces.operators.block_scales import SCALE_ORDERS, in_lines, in_order, scale_positions, scales_shape
from search_spaces.operators.part import Indices, grid, rectangles
from search_spaces.operators.problem import DRAWN, Problem, ProblemPart, option, sum_growth

ORDERS = ("row", "col")
ACTIVATIONS = ("relu", "gelu", "silu")
EPILOGUES = ("none", "bias", *ACTIVATIONS, *(f"bias+{a}" for a in ACTIVATIONS))
PRECISIONS = ("tf32", "ieee")
SCALES = ("none", "tensor", "row_column", "block")
SCALE_BLOCK = (
    # A scale applies to this number of elements along k, and in b also to this number of columns (DeepSeek-V3, arXiv
    # 2412.19437, section 3.3.2).
    128
)
RESULT_DTYPES = FLOAT_DTYPES | {"i32": I32}
FP8 = ("e4m3", "e5m2")
REDUCTIONS = ("none", "row_sum", "row_max", "column_sum", "column_max")

# Significant bits that tensor cores keep of a sum of products of 8-bit floats: about 14 on Hopper (DeepSeek-V3, arXiv
# 2412.19437, section 3.3.2), and on Ada (SageAttention2, arXiv 2411.10958, section 3.2: FP22).
FP8_SUM_BITS = 14
FP8_PRODUCTS = 32  # number of products along k that one instruction adds
MOST_I8_K = 2**17  # limit of k: a sum of that many products (-128)^2 overflows i32
# accumulator types by the type of a; all other types only have f32
ACCUMULATORS = {"f16": ("f32", "f16"), "i8": ("i32",)}
F16_SUM_BITS = F16.mantissa_bits + 1
F16_INFINITY = 65520.0  # smallest number that f16 rounds to infinity
_PART_ELEMENTS = 2**20  # largest number of operand elements in one of the partial problems that compute a reduction
# number of products along k that tensor cores of sm_80 add at a time (Fasi et al., PeerJ CS 7:e330); tensor cores of
# later GPUs add more
F16_PRODUCTS = 8


@dataclass(frozen=True)
class Matmul(Problem):
    """A batch of matmuls: ``out[b] = activation(scales * (a[b] @ b[b]) + bias)`` for each of ``batch`` matrices.

    a is m x k, b is k x n, and out is m x n. out is row-major.

    - ``order_a``, ``order_b``: storage orders (the XeTile ``order``), "row" for row-major and "col" for column-major.
      The default of ``order_b`` is "col" for 8-bit types, because tensor cores need b contiguous along k.
    - ``a``, ``b``: types of a and b, which must be equal. The constructor also accepts ``dtype`` instead of ``a``.
    - ``out``: type of out. Default for 8-bit floats and for formats with block scales: bf16. Default for i8: bf16 with
      scales, and i32 (exact sums) without scales. Default for other types: the type of a.
    - ``acc``: type in which tensor cores accumulate: i32 for i8, and f32 for all other types. f16 may also be
      accumulated in f16, which overflows above 65504.
    - ``precision`` affects only f32 inputs. With "tf32", tensor cores may round inputs to tf32; with "ieee", they may
      not.
    - The bias has n elements of the output's type, and is added to every row. gelu is the exact function with erf.

    ``scale`` selects f32 scales for 8-bit types:

    - "none": no scales.
    - "tensor": one scale for a, and one scale for b.
    - "row_column": one scale for each row of a (batch, m), and one for each column of b (batch, n).
    - "block", only for 8-bit floats: one scale for each row and each 128 elements along k of a (batch, m, k / 128), and
      one for each 128 columns and each 128 elements along k of b (batch, n / 128, k / 128). Quotients are rounded up.
      The sum of 128 products is multiplied by its scales before it is accumulated in f32.

    The block-scaled types "mxf8", "mxf4" and "nvf4" (``hardware.block_scaling``) have a scale for each block of 32 or
    16 numbers along k. A byte stores two 4-bit numbers. For these types, ``order_a`` must be "row", ``order_b`` must be
    "col", and k must be a multiple of the block size.

    - ``block_scale_a`` contains the scales of the rows of a, and ``block_scale_b`` the scales of the columns of b.
    - ``scale_order`` is the layout of these scales: "row" for (batch, lines, k / block), or "tiled" for the layout of
      cuBLAS and torch._scaled_mm (``operators.block_scales``).
    - ``scale`` selects additional f32 scales, such as nvf4's scale of a whole tensor.

    A ``reduction`` adds the second output ``reduced`` in f32: the sum or the maximum of each row (batch, m) or of each
    column (batch, n). The result is reduced before it is rounded to the output's type (XeTile RFC, appendix 2.2). As in
    numpy, a maximum with a NaN is NaN.

    Raises:
        ValueError: A size is below 1, a name is unknown, or the combination is not supported.
    """

    operator: ClassVar[str] = "matmul"
    summary: ClassVar[str] = "out = epilogue(a @ b), batched"

    m: int = option("rows of a and out", flag="-m")
    n: int = option("columns of b and out", flag="-n")
    k: int = option("columns of a, rows of b", flag="-k")
    batch: int = option("number of matrices", 1)
    a: str = option("type of a and b", "f16", flag="--dtype", choices=tuple(FACTOR_DTYPES))
    b: str = ""
    acc: str = option(
        "type of the sums: i32 for i8, f32 or f16 for f16, f32 for all other types", "", choices=("f32", "i32", "f16")
    )
    out: str = option(
        "type of out (default: the type of a and b; bf16 for e4m3 and e5m2, i32 for i8)",
        "",
        choices=tuple(RESULT_DTYPES),
    )
    order_a: str = option("storage order of a", "row", choices=ORDERS)
    order_b: str = option("storage order of b (default: row, or col for 8-bit types)", "", choices=ORDERS)
    epilogue: str = option("bias and activation after the product", "none", choices=EPILOGUES)
    precision: str = option("precision of f32 inputs: tf32 allows rounding them", "tf32", choices=PRECISIONS)
    reduction: str = option(
        "reduction for a second output: the sum or the maximum of each row or column", "none", choices=REDUCTIONS
    )
    scale: str = option("f32 scales of a and b, for 8-bit types", "none", choices=SCALES)
    scale_order: str = option("layout of the scales of block-scaled types (default: row)", "", choices=SCALE_ORDERS)

    dtype: InitVar[str] = ""

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The number of rows m is the batch size, because the rows of ``a`` are independent of each other."""
        return {"m": 4096}

    def __post_init__(self, dtype_: str) -> None:
        self._take_dtype("a", dtype_)
        self._take_types("b", "acc", "out")
        out, order_b = self.a, "row"
        if self.a in EIGHT_BIT_DTYPES:
            out, order_b = "i32" if self.a == "i8" and self.scale == "none" else "bf16", "col"
        elif self.a in BLOCK_FORMATS:
            out, order_b = "bf16", "col"
        self._take_defaults(b=self.a, acc="i32" if self.a == "i8" else "f32", out=out, order_b=order_b)
        self._take_extents("m", "n", "k")
        self._take_sizes("batch")
        if max(self.m * self.k, self.k * self.n, self.m * self.n) * self.batch >= 2**40:
            raise ValueError("the matrices are too large: keep each array under 2^40 elements")
        for name in ("a", "b"):
            dtype(getattr(self, name), FACTOR_DTYPES)
        dtype(self.out, RESULT_DTYPES)
        if self.a != self.b:
            raise ValueError(f"a and b must have the same type, not {self.a} and {self.b}")
        accumulators = ACCUMULATORS.get(self.a, ("f32",))
        if self.acc not in accumulators:
            why = (
                "only f16 products can be accumulated in f16"
                if self.acc == "f16"
                else f"{self.a} has no other accumulator"
            )
            raise ValueError(f"acc must be {' or '.join(accumulators)} for {self.a}, not {self.acc!r}: {why}")
        if self.a == "i8" and self.k >= MOST_I8_K:
            raise ValueError(f"k must be under 2^17 for i8, not {self.k}: sums could overflow i32")
        for name in ("order_a", "order_b"):
            if getattr(self, name) not in ORDERS:
                raise ValueError(f"{name} must be row or col, not {getattr(self, name)!r}")
        if self.epilogue not in EPILOGUES:
            raise ValueError(f"unknown epilogue {self.epilogue!r}: use one of {', '.join(EPILOGUES)}")
        if self.reduction not in REDUCTIONS:
            raise ValueError(f"unknown reduction {self.reduction!r}: use one of {', '.join(REDUCTIONS)}")
        if self.scale not in SCALES:
            raise ValueError(f"unknown scale {self.scale!r}: use one of {', '.join(SCALES)}")
        if self.scale != "none" and self.a not in (*EIGHT_BIT_DTYPES, *BLOCK_FORMATS):
            known = ", ".join((*EIGHT_BIT_DTYPES, *BLOCK_FORMATS))
            raise ValueError(
                f"unsupported type {self.a} for scale={self.scale}: use a type of at most 8 bits ({known})"
            )
        self._check_blocks()
        if self.scale == "block" and self.a not in FP8:
            raise ValueError(f"unsupported type {self.a} for scale=block: use {' or '.join(FP8)}")
        if self.out == "i32":
            self._check_whole_numbers()
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be tf32 or ieee, not {self.precision!r}")
        if self.precision == "ieee" and self.a != "f32":
            raise ValueError(f"precision ieee only affects f32 inputs: omit it for {self.a}")

    def _check_blocks(self) -> None:
        """Raise ValueError for an unsupported combination of block scales."""
        blocks = self.blocks
        if blocks is None:
            if self.scale_order:
                known = ", ".join(BLOCK_FORMATS)
                raise ValueError(f"scale_order needs a block-scaled type ({known}): omit it for {self.a}")
            return
        self._take_defaults(scale_order="row")
        if self.scale_order not in SCALE_ORDERS:
            raise ValueError(f"scale_order must be row or tiled, not {self.scale_order!r}")
        if (self.order_a, self.order_b) != ("row", "col"):
            raise ValueError(f"{self.a} must be contiguous along k: order_a must be row and order_b col")
        if self.k % blocks.block:
            raise ValueError(f"k must be a multiple of {blocks.block}, a block of {self.a}, not {self.k}")

    def _check_whole_numbers(self) -> None:
        if self.a != "i8":
            floats = ", ".join(FLOAT_DTYPES)
            raise ValueError(f"out i32 needs i8 inputs, not {self.a}: set out to one of {floats}")
        for name in ("scale", "epilogue", "reduction"):
            if getattr(self, name) != "none":
                raise ValueError(f"{name} {getattr(self, name)} needs a float type of out, such as f32, not i32")

    def to_json(self) -> dict[str, Any]:
        """Return the fields.

        Unused ``scale`` and ``scale_order`` are omitted, because older databases do not have them.
        """
        fields = super().to_json()
        if self.scale == "none":
            del fields["scale"]
        if not self.scale_order:
            del fields["scale_order"]
        return fields

    @property
    def blocks(self) -> BlockFormat | None:
        """Block format if the factors are block-scaled along k; otherwise None."""
        return BLOCK_FORMATS.get(self.a)

    @property
    def depth(self) -> int:
        """Number of stored elements along k, each of which contains one or more numbers."""
        return self.k // self.input_dtype.values

    @property
    def scale_blocks(self) -> int:
        """Number of blocks along k, each of which has a scale; 0 without block scales."""
        return self.k // self.blocks.block if self.blocks else 0

    @property
    def has_bias(self) -> bool:
        """True if a bias is added."""
        return self.epilogue.startswith("bias")

    @property
    def activation(self) -> str:
        """Activation: "none", "relu", "gelu" or "silu"."""
        last = self.epilogue.rpartition("+")[2]
        return last if last in ACTIVATIONS else "none"

    @property
    def reduced_axis(self) -> int | None:
        """Axis of out over which the reduction runs: -1 for rows, -2 for columns; None without a reduction."""
        return {"row": -1, "column": -2}.get(self.reduction.partition("_")[0])

    @property
    def multiplied_as(self) -> str:
        """Type that a tensor core multiplies: the type of the inputs, or tf32 for f32 inputs."""
        return "tf32" if self.a == "f32" else self.a

    @property
    def signed_zeros(self) -> bool:
        """True if there are no scales.

        Without scales, a result is never -0 if the exact result is 0, because a sum that begins at +0 is never -0. A
        product of a sum and a scale may be -0.
        """
        return self.scale == "none"

    @property
    def sums_of_register(self) -> int:
        """Number of accumulators that fit into a 32-bit register."""
        return 2 if self.acc == "f16" else 1

    @property
    def input_dtype(self) -> DType:
        """Type of a and b."""
        return FACTOR_DTYPES[self.a]

    @property
    def out_dtype(self) -> DType:
        """Type of out."""
        return RESULT_DTYPES[self.out]

    @property
    def flops(self) -> float:
        """Number of operations of the product: 2 m n k per matrix."""
        return 2.0 * self.batch * self.m * self.n * self.k

    def operands(self) -> tuple[Operand, ...]:
        """Return the operands: a, b, scales and bias if present, and the outputs.

        Shapes are in memory order: a column-major a is (batch, k, m).
        """
        a_shape = (self.m, self.depth) if self.order_a == "row" else (self.depth, self.m)
        b_shape = (self.depth, self.n) if self.order_b == "row" else (self.n, self.depth)
        bias = (Operand("bias", "input", self.out_dtype, (self.n,)),) if self.has_bias else ()
        return (
            Operand("a", "input", self.input_dtype, (self.batch, *a_shape)),
            Operand("b", "input", self.input_dtype, (self.batch, *b_shape)),
            *self._block_scales(),
            *(Operand(name, "input", F32, shape) for name, shape in self._scale_shapes().items()),
            *bias,
            Operand("out", "output", self.out_dtype, (self.batch, self.m, self.n)),
            *self._reduced(),
        )

    def _block_scales(self) -> tuple[Operand, ...]:
        if self.blocks is None:
            return ()
        shapes = (
            (f"block_scale_{side}", scales_shape(self.scale_order, self.batch, lines, self.scale_blocks))
            for side, lines in (("a", self.m), ("b", self.n))
        )
        return tuple(Operand(name, "input", self.blocks.scale, shape) for name, shape in shapes)

    def _scale_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.scale == "none":
            return {}
        if self.scale == "tensor":
            return {"scale_a": (1,), "scale_b": (1,)}
        if self.scale == "row_column":
            return {"scale_a": (self.batch, self.m), "scale_b": (self.batch, self.n)}
        across, deep = -(-self.n // SCALE_BLOCK), -(-self.k // SCALE_BLOCK)
        return {"scale_a": (self.batch, self.m, deep), "scale_b": (self.batch, across, deep)}

    def _reduced(self) -> tuple[Operand, ...]:
        if self.reduced_axis is None:
            return ()
        return (Operand("reduced", "output", F32, (self.batch, self.m if self.reduced_axis == -1 else self.n)),)

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return random inputs: standard normal values, uniformly distributed integers for i8, scales from 1/2 to 2."""
        inputs, rng = super().random_inputs(seed), np.random.default_rng((seed, 8))
        if self.a == "i8":
            for operand in self.operands()[:2]:
                drawn = rng.integers(-128, 128, min(operand.size, DRAWN), dtype=np.int8)
                inputs[operand.name] = np.resize(drawn, operand.shape)
        for name, shape in self._scale_shapes().items():
            inputs[name] = np.exp2(rng.uniform(-1, 1, shape)).astype(np.float32)
        return inputs | self._random_block_scales(lambda shape: np.exp2(rng.uniform(-2, 2, shape)))

    def _random_block_scales(self, draw: Callable[[tuple[int, ...]], FloatArray]) -> dict[str, Array]:
        """Return block scales in their storage order. ``draw`` generates them with the shape (batch, lines, blocks).

        The padding of tiles is NaN, which must not reach any output.
        """
        if self.blocks is None:
            return {}
        nan = 255 if self.blocks.scale.name == "ue8m0" else 127
        arrays: dict[str, Array] = {}
        for side, lines in (("a", self.m), ("b", self.n)):
            scales = self.blocks.scale.store(draw((self.batch, lines, self.scale_blocks)))
            arrays[f"block_scale_{side}"] = in_order(self.scale_order, scales, nan)
        return arrays

    def input_cases(self) -> tuple[cases.InputCase, ...]:
        """Return the edge cases for the rows of ``a``, or for the columns of ``b`` if columns are reduced.

        The other matrix has positive integers, so that each edge case affects a whole row or column of out. If sums are
        f16, these integers are scaled down by a power of two, so that only the sums of the case "huge" may overflow.
        """
        if self.a == "i8":
            return cases.INTEGERS, cases.NEGATIVE, cases.ZERO, cases.LARGEST
        if self.input_dtype.values > 1:  # omit cases with infinities or NaN, which 4-bit types do not have
            return cases.INTEGERS, cases.NEGATIVE, cases.ZERO, cases.HUGE, cases.SUBNORMAL
        if self.input_dtype.name == "e4m3":  # omit cases with infinities, which e4m3 does not have
            return cases.INTEGERS, cases.NEGATIVE, cases.NAN, cases.ZERO, cases.HUGE, cases.SUBNORMAL
        lines = (cases.INTEGERS, cases.NEGATIVE, cases.MINUS_INFINITY, cases.NAN, cases.INFINITY, cases.ZERO)
        rounded = self.multiplied_as == "tf32" and self.precision == "tf32"  # rounded to multiples of 2^-136
        return (*lines, cases.HUGE, *(() if rounded else (cases.SUBNORMAL,)))

    def stress_inputs(self, seed: int) -> Iterator[cases.StressInputs]:
        """Yield inputs in which one factor contains the input cases, and the other factor contains small integers."""
        rng = np.random.default_rng((seed, 1))
        dtype, columns = self.input_dtype, self.reduced_axis == -2
        extent, other = (self.n, self.m) if columns else (self.m, self.n)
        for names, lines in cases.mixed(self.input_cases(), rng, self.batch * extent, self.k, dtype):
            lines = lines.reshape(self.batch, extent, self.k)
            counts = rng.integers(1, 4, (self.batch, other, self.k)) * self._smaller()
            at = counts if other > 1 and self.reduced_axis is None else lines
            # NaN after the end of k exposes an out-of-bounds read that contributes to a result
            if at.shape[1] > 1 and dtype.holds_nan:
                at[:, 0, 0] = np.nan
            a, b = (counts, lines) if columns else (lines, counts)  # store both factors with k as the last axis
            stored = {
                "a": dtype.store(a if self.order_a == "row" else a.swapaxes(1, 2)),
                "b": dtype.store(b.swapaxes(1, 2) if self.order_b == "row" else b),
            }
            yield self._stress(names, stored, rng)
        if dtype.bits == 8 and dtype.values == 1:
            yield self._stress((cases.PATTERNS,), self._patterns(rng, columns), rng)
        if self.a == "i8":
            shapes = {o.name: o.shape for o in self.operands()[:2]}
            largest = {name: rng.integers(126, 128, shape, dtype=np.int8) for name, shape in shapes.items()}
            yield self._stress((cases.ALL_LARGEST,), largest, rng)
        if self.blocks is not None:
            yield self._scale_patterns(rng)

    def _scale_patterns(self, rng: np.random.Generator) -> cases.StressInputs:
        """Return inputs with scales of very different sizes along k, and a NaN scale in every second line.

        Factors are 1 or 2.
        """
        assert self.blocks is not None
        dtype, shapes = self.input_dtype, {o.name: o.shape for o in self.operands()[:2]}

        def draw(shape: tuple[int, ...]) -> FloatArray:
            scales = np.exp2(np.resize(np.arange(-6.0, 7.0), shape))
            if shape[1] > 1:
                scales[:, ::2, int(rng.integers(shape[2]))] = np.nan
            return scales

        factors = {
            name: dtype.store(rng.integers(1, 3, (*shape[:-1], self.k)).astype(np.float64)).reshape(shape)
            for name, shape in shapes.items()
        }
        stress = self._stress((cases.PATTERNS,), factors, rng)
        return cases.StressInputs(stress.cases, {**stress.inputs, **self._random_block_scales(draw)})

    def _stress(
        self, names: tuple[str, ...], factors: Mapping[str, Array], rng: np.random.Generator
    ) -> cases.StressInputs:
        """Return ``factors`` together with a bias of integers, and scales that are powers of two."""
        stored = dict(factors)
        if self.has_bias:
            stored["bias"] = self.out_dtype.store(rng.integers(-9, 10, self.n).astype(np.float64))
        for name, shape in self._scale_shapes().items():
            stored[name] = np.exp2(rng.integers(-2, 3, shape)).astype(np.float32)
        stored |= self._random_block_scales(lambda shape: np.exp2(rng.integers(0, 3, shape)))
        return cases.StressInputs(names, {name: np.ascontiguousarray(x) for name, x in stored.items()})

    def _patterns(self, rng: np.random.Generator, columns: bool) -> dict[str, Array]:
        """Return inputs in which ``a`` (or ``b``, if columns are reduced) contains the bit patterns of an 8-bit type.

        Lines run through the finite patterns along k. Every second line (or a single line) also has an infinity or NaN.
        The other factor has ones and twos.
        """
        dtype = self.input_dtype
        extent, other = (self.n, self.m) if columns else (self.m, self.n)
        codes = np.arange(256).astype(np.uint8)
        finite = np.isfinite(dtype.load(codes.view(dtype.storage)))
        begins = rng.integers(0, 256, (self.batch, extent, 1))
        lines = np.resize(codes[finite], 256)[(begins + np.arange(self.k)) % 256]
        special = codes[~finite]
        if special.size:
            chosen = np.resize(special, self.batch * extent)
            at = cases.positions(rng, self.batch * extent, self.k)
            flat = lines.reshape(-1, self.k)
            # every second line only, to test that the lines in between stay finite
            every = slice(0, None, 2) if extent > 1 else slice(None)
            flat[np.arange(len(flat))[every], at[every]] = chosen[: len(flat[every])]
        stored = lines.view(dtype.storage)
        ones = dtype.store(rng.integers(1, 3, (self.batch, other, self.k)).astype(np.float64))
        a, b = (ones, stored) if columns else (stored, ones)
        return {
            "a": a if self.order_a == "row" else a.swapaxes(1, 2),
            "b": b.swapaxes(1, 2) if self.order_b == "row" else b,
        }

    def _smaller(self) -> float:
        """Return a factor for the integers of stress inputs. Without it, their products are at most 24.

        If sums are f16, the factor keeps a sum of k products below 2^15. Otherwise, it is 1.
        """
        return 1.0 if self.acc != "f16" else 2.0 ** min(0, int(np.floor(15 - np.log2(24 * self.k))))

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield problems that each compute a rectangle of one matrix of out. They have no reduction.

        With block scales, the columns of a rectangle share a scale.
        """
        for rows, columns in rectangles(positions, self.n):
            for batch in np.unique(rows // self.m):
                here = rows[rows // self.m == batch] % self.m
                if self.scale != "block":
                    yield self._part(int(batch), here, columns)
                    continue
                for block in np.unique(columns // SCALE_BLOCK):
                    yield self._part(int(batch), here, columns[columns // SCALE_BLOCK == block])

    def further_parts(self, name: str, positions: Indices) -> Iterator[ProblemPart]:
        """Yield smaller problems that compute the elements of ``reduced`` at ``positions``.

        Each problem computes whole rows of out, or whole columns if columns are reduced.
        """
        if name != "reduced":
            return
        extent, along = (self.m, np.arange(self.n)) if self.reduced_axis == -1 else (self.n, np.arange(self.m))
        together = max(1, _PART_ELEMENTS // (along.size + self.k))
        for batch in np.unique(positions // extent):
            here = positions[positions // extent == batch] % extent
            for some in np.split(here, range(together, here.size, together)):
                rows, columns = (some, along) if self.reduced_axis == -1 else (along, some)
                for part in (self._part(int(batch), rows, columns),) if self.scale != "block" else ():
                    reduced = (int(batch) * extent + some)[None]
                    problem = replace(self, m=rows.size, n=columns.size, batch=1)
                    yield ProblemPart(problem, part.inputs, {**part.outputs, name: reduced})

    def _part(self, batch: int, here: Indices, columns: Indices) -> ProblemPart:
        """Return the problem for the rows ``here`` and the columns ``columns`` of one matrix, without the reduction."""
        depth = np.arange(self.depth)
        a, b, out = (batch * size for size in (self.m * self.depth, self.depth * self.n, self.m * self.n))
        of_a = [(here, self.depth), (depth, 1)] if self.order_a == "row" else [(depth, self.m), (here, 1)]
        of_b = [(depth, self.n), (columns, 1)] if self.order_b == "row" else [(columns, self.depth), (depth, 1)]
        inputs = {"a": grid(a, *of_a)[None], "b": grid(b, *of_b)[None]}
        if self.scale == "tensor":
            inputs["scale_a"] = inputs["scale_b"] = np.zeros(1, dtype=np.int64)
        elif self.scale == "row_column":
            inputs["scale_a"] = (batch * self.m + here)[None]
            inputs["scale_b"] = (batch * self.n + columns)[None]
        elif self.scale == "block":
            across, deep = -(-self.n // SCALE_BLOCK), -(-self.k // SCALE_BLOCK)
            blocks = np.arange(deep)
            inputs["scale_a"] = grid(batch * self.m * deep, (here, deep), (blocks, 1))[None]
            inputs["scale_b"] = grid(
                batch * across * deep, (columns[:1] // SCALE_BLOCK, deep), (blocks, 1)
            )[None]  # fmt: skip
        if self.has_bias:
            inputs["bias"] = columns
        for operand, lines, of_lines in zip(self._block_scales(), (here, columns), (self.m, self.n), strict=False):
            at = scale_positions(self.scale_order, lines, np.arange(self.scale_blocks), of_lines, self.scale_blocks)
            inputs[operand.name] = (batch * (operand.size // self.batch) + at)[None]
        order = "row" if self.blocks else ""
        problem = replace(self, m=here.size, n=columns.size, batch=1, reduction="none", scale_order=order)
        return ProblemPart(problem, inputs, {"out": grid(out, (here, self.n), (columns, 1))[None]})

    def _values(self, inputs: Mapping[str, Array]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return a, b, the bias, and the broadcastable scale of each element of the product.

        Block scales are already applied to a and b.
        """
        a, b = self.input_dtype.load(inputs["a"]), self.input_dtype.load(inputs["b"])
        if self.blocks is not None:
            of_a, of_b = (
                self.blocks.scale.load(in_lines(self.scale_order, inputs[name], lines, self.scale_blocks))
                for name, lines in (("block_scale_a", self.m), ("block_scale_b", self.n))
            )
            with np.errstate(invalid="ignore"):
                a = a * of_a.repeat(self.blocks.block, -1)
                b = b * of_b.repeat(self.blocks.block, -1)
        a = a if self.order_a == "row" else a.swapaxes(-1, -2)
        b = b if self.order_b == "row" else b.swapaxes(-1, -2)
        bias = self.out_dtype.load(inputs["bias"]) if self.has_bias else np.zeros_like(a, shape=self.n)
        scale = np.ones_like(a, shape=(1, 1, 1))
        if self.scale == "block":
            of_a, of_b = (
                F32.load(inputs[name]).repeat(SCALE_BLOCK, -1)[..., : self.k] for name in ("scale_a", "scale_b")
            )
            with np.errstate(invalid="ignore"):  # no warning about bit patterns that are signalling NaNs
                a = a * of_a
                b = b * of_b.repeat(SCALE_BLOCK, -2)[:, : self.n].swapaxes(-1, -2)
        elif self.scale != "none":
            of_a, of_b = (F32.load(inputs[name]) for name in ("scale_a", "scale_b"))
            scale = of_a[..., :, None] * of_b[..., None, :]
        return a, b, bias, scale

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return ``reference`` and ``tolerance``, computed from the same product."""
        a, b, bias, scale = self._values(inputs)
        with np.errstate(invalid="ignore"):
            product = a @ b
            return self._results(product, bias, scale), self._tolerance(a, b, bias, scale, product)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the outputs in float64: the product after scales, bias and activation, and the optional reduction."""
        a, b, bias, scale = self._values(inputs)
        with np.errstate(invalid="ignore"):  # no warning: the sum of infinities of opposite signs is NaN
            return self._results(a @ b, bias, scale)

    def _results(self, product: FloatArray, bias: FloatArray, scale: FloatArray) -> dict[str, FloatArray]:
        result = _activate(self.activation, self._saturated(product) * scale + bias)
        if self.reduced_axis is None:
            return {"out": result}
        reduce = np.sum if self.reduction.endswith("sum") else np.max
        return {"out": result, "reduced": reduce(result, axis=self.reduced_axis)}

    def _saturated(self, sums: FloatArray) -> FloatArray:
        """Replace sums that overflow f16 accumulators by infinities."""
        if self.acc != "f16":
            return sums
        saturated: FloatArray = np.where(np.abs(sums) >= F16_INFINITY, np.copysign(np.inf, sums), sums)
        return saturated

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return a bound of the rounding error for each element of each output.

        In the following, s = sqrt(sum_k a^2 b^2) is the size of the random walk of the partial sums.

        **Sums in f32.** No partial sum of random inputs exceeds P = 6 s + 2 |a @ b|. An addition that is rounded to
        nearest has an error of at most 2^-24 P. Tensor cores truncate, with an error of 2^-23 P, but add 8 or more
        products at a time. The bound of all additions is (k / 2 + 16) 2^-23 P. Sums of integers up to 2^24 are exact.

        **Inputs rounded to tf32.** Rounding has a random error of at most 2^-11 for each input. wgmma instead truncates
        inputs, with an error of up to 2^-10 towards zero. The bound for both cases is 4 s 2^-10 + |a @ b| 2^-10.

        **8-bit floats.** Tensor cores keep FP8_SUM_BITS of a sum, and truncate the partial sum once every 32 products.
        The partial sum has the size s during the summation, and |a @ b| at its end. The bound is (k / 32 + 2) 2^-13 (2
        s + 2 |a @ b|). Sums of integers up to 2^13 are exact.

        **i8.** Sums are exact. They are rounded once if out is a float.

        **Scales.** Scales multiply these errors. They add two rounding errors of 2^-24 of the scaled sum, and one
        rounding error of the sum with the bias. With block scales, the sum of each block is truncated. The error of a
        block has the sign of the block's sum. Because a sum rarely exceeds 2 s, the error is at most 36 * 2^-13 times
        the s of the block. The signs are random, so the squares of the errors add up. The bound is therefore 36 *
        2^-13 s.

        **Sums in f16.** A sum is rounded to nearest once per F16_PRODUCTS or more products, and when splits of k are
        added. This happens n = k / 8 + 16 times, each time with an error of at most 2^-11 of a partial sum plus 2^-25.
        The errors are random, so their sum grows with sqrt(n) (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019). The
        standard deviation of the error is 0.41 sqrt(n) 2^-11 s for random inputs, and 0.33 sqrt(n) 2^-11 |a @ b| for
        inputs of one sign. The bound is sqrt(n) 2^-11 (3 s + 2 |a @ b|). The worst case, with n instead of sqrt(n), is
        far larger. Sums of integers up to 2^11 are exact.

        **Activations.** An activation multiplies errors by at most 1.13. It also adds errors: 1 + erf has an error of
        2^-22 where erf is near -1, silu is 0 where its exponential overflows, and half of a subnormal number may lose
        its last bit. Rounding to the output type adds its unit roundoff.

        **Reductions.** Let e be the bound of an element x of the result. The error of a maximum is at most the largest
        e. The random errors of a sum have the bound 4 sqrt(sum e^2). Truncation errors have the sign of their element.
        There are k / 8 truncations. The error of each is 2^-24 times a partial sum, which is about s / 2. Together,
        they are below e / 24 for each element. The summation adds ``sum_growth`` rounding errors of partial sums. For
        random terms, a partial sum does not exceed 4 sqrt(sum x^2) + |sum x|. Where results are tiny, the errors of
        activations may have the same sign for all elements, so these errors are added.
        """
        return self.expected(inputs)[1]

    def _tolerance(
        self, a: FloatArray, b: FloatArray, bias: FloatArray, scale: FloatArray, product: FloatArray
    ) -> dict[str, FloatArray]:
        exact = self._exact(a, b, bias)
        # If all sums are exact, there is no random-walk error.
        s = np.zeros_like(product) if exact.all() else np.sqrt(np.square(a) @ np.square(b))
        partial = 6.0 * s + 2.0 * np.abs(product) + np.abs(bias)
        bound = (self.k / 2 + 16) * 2.0**-23 * partial
        if self.multiplied_as == "tf32" and self.precision == "tf32":
            bound += 2.0**-10 * (4.0 * s + np.abs(product))
        if self.acc == "f16":
            roundings = self.k / F16_PRODUCTS + 16
            bound += np.sqrt(roundings) * F16.unit_roundoff * (3.0 * s + 2.0 * np.abs(product))
            bound += roundings * SMALLEST["f16"] / 2
        if self.scale == "block":
            bound += (SCALE_BLOCK / FP8_PRODUCTS + 2) * 2.0 ** (1 - FP8_SUM_BITS) * 6.0 * s
        elif self.a in FP8 or self.blocks:
            bound += (self.k / FP8_PRODUCTS + 2) * 2.0 ** (1 - FP8_SUM_BITS) * (2.0 * s + 2.0 * np.abs(product))
        if self.a == "i8":
            bound = 2.0**-23 * (np.abs(product) + np.abs(bias))
        exact = exact | (self.out == "i32")
        bound = np.where(exact, 0.0, bound)
        if self.scale != "none":
            product, exact = product * scale, np.zeros_like(exact)
            bound = np.abs(scale) * bound + 2.0**-22 * (np.abs(product) + np.abs(bias))
        finished = _activate(self.activation, product + bias)
        result = np.abs(finished)
        lost = {"gelu": SMALLEST["f32"], "silu": 2.0**-120}.get(self.activation, 0.0)
        if self.activation in ("gelu", "silu"):
            bound = 1.13 * bound + 2.0**-20 * result  # rounding errors of the activation's arithmetic in f32
            bound += 2.0**-22 * np.abs(product + bias) if self.activation == "gelu" else 0.0
        else:
            bound = bound + 2.0**-20 * np.where(exact, 0.0, result)
        roundoff = self.out_dtype.unit_roundoff if self.out_dtype.is_float else 0.0
        allowed = {"out": bound + lost + roundoff * (result + bound) + SMALLEST[self.out]}
        axis = self.reduced_axis
        if axis is not None and self.reduction.endswith("max"):
            allowed["reduced"] = bound.max(axis=axis) + lost
        elif axis is not None:
            random, one_sided = 4.0 * np.sqrt(np.square(bound).sum(axis=axis)), bound.sum(axis=axis) / 24.0
            partial = 4.0 * np.sqrt(np.square(finished).sum(axis=axis)) + np.abs(finished.sum(axis=axis))
            count = finished.shape[axis]
            growth = sum_growth(count) * FLOAT_DTYPES["f32"].unit_roundoff
            whole = self.activation in ("none", "relu") and exact.all(axis=axis) & (
                result.sum(axis=axis) <= cases.EXACT
            )
            allowed["reduced"] = np.where(whole, 0.0, random + one_sided + growth * partial + count * lost)
        return allowed

    def _exact(self, a: FloatArray, b: FloatArray, bias: FloatArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the elements of out that must be exact.

        An element must be exact if its terms are integers, and the accumulator represents their partial sums exactly.
        If factors are multiplied as tf32, they must also be exact in tf32.
        """
        rows, columns = cases.whole_lines(a)[..., :, None], cases.whole_lines(b.swapaxes(-1, -2))[..., None, :]
        exact: npt.NDArray[np.bool_] = rows & columns & (cases.whole_lines(bias[:, None]))
        if exact.any():
            most = (
                2.0 ** (FP8_SUM_BITS - 1)
                if self.a in FP8 or self.blocks
                else 2.0**F16_SUM_BITS
                if self.acc == "f16"
                else cases.EXACT
            )
            exact &= np.abs(a) @ np.abs(b) + np.abs(bias) <= most
        if self.multiplied_as == "tf32":
            exact &= (np.abs(a).max(-1) <= 2.0**11)[..., :, None] & (np.abs(b).max(-2) <= 2.0**11)[..., None, :]
        return exact


def _erf(x: FloatArray) -> FloatArray:
    """Return the error function of each element; unlike SciPy's, it also supports cupy arrays."""
    special = import_module("scipy.special" if isinstance(x, np.ndarray | np.generic) else "cupyx.scipy.special")
    values: FloatArray = special.erf(x)
    return values


def _activate(kind: str, x: FloatArray) -> FloatArray:
    if kind == "relu":
        return np.maximum(x, 0.0)
    if kind == "gelu":
        return 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))
    if kind == "silu":
        with np.errstate(over="ignore"):
            return x / (1.0 + np.exp(-x))
    return x
