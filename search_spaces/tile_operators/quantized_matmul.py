"""Products of 16-bit numbers with weights of 4 or 8 bits, which are dequantised in registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.block_scaling import FP4, FP4_EXPONENT
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import E4M3, F32, FLOAT_DTYPES, I8, I32, U8
from search_spaces.launches.operand import Operand
from search_spaces.layouts.memory_order import FRAGMENT_BYTES, FRAGMENT_WORDS, MemoryOrder
from search_spaces.operators.problem import option
from search_spaces.tile_operators.packed_weights import SPAN, pack_fragments, unpack_int4
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut

TYPES = ("f16", "bf16")
WEIGHTS = {"int4": I32, "int8": I8, "e4m3": E4M3, "nvf4": I32}
GROUPS = (0, 16, 32, 64, 128)
FP4_GROUP = 16
LAYOUTS = ("rows", "fragments")
DEPTH = 16  # k of one mma.sync instruction; also the numbers packed at one position of the halves of words
TIMES = 16  # factor of four-bit numbers after conversion to f16 without a shift; scales are divided by it
MOST_ROWS = 256  # of x in a tile
MIDDLE = 8  # zero point of four-bit numbers without an array of zero points


@dataclass(frozen=True)
class QuantizedMatmul(TileProblem):
    """``out = x @ dequantised(w).T``, for x (m, k) and weights with one row per column of out (m, n).

    ``weights`` is the format of w. "int4": (n, k / 8) words of i32 that ``pack_int4`` packs from numbers 0 to 15.
    "int8" or "e4m3": (n, k). "nvf4": e2m1 codes, packed like int4. A weight is ``(number - zero) * scale``. scale
    (groups, n) of x's type has one scale per ``group`` columns of w, or with ``group=0`` one per row. The zero is an
    element of zeros (groups, n) of u8 with ``zero_points`` (0 to 15, int4 only), else 8 for int4 and 0 for the others.
    Scales of nvf4 are e4m3, one per 16 columns, and all its weights are multiplied by global_scale (1,) of f32.

    With ``layout="fragments"`` w is packed by ``pack``, so that each thread loads its own operands with 16-byte loads.

    The sum over each group is accumulated in f32 before it is scaled, so weights are not rounded. With more than 128
    rows of x, however, scaled weights of int4, int8 and e4m3 are rounded to x's type. The tolerance is the
    interpreter's bound for sums in any order.

    Raises ValueError for sizes below 1, unknown types, k that is not a multiple of 64 or of the group, and zero points
    of weights other than int4.
    """

    operator: ClassVar[str] = "quantized_matmul"
    summary: ClassVar[str] = "out = x @ w.T with weights of int4, int8, e4m3 or nvf4 and scales of groups"
    inputs: ClassVar[tuple[str, ...]] = ("x", "w", "scale")
    optional_inputs: ClassVar[tuple[str, ...]] = ("zeros", "global_scale")
    size_fields: ClassVar[tuple[str, ...]] = ("m", "n", "k")

    m: int = option("rows of x and out", flag="-m")
    n: int = option("columns of out, rows of w", flag="-n")
    k: int = option("columns of x, numbers in a row of w", flag="-k")
    weights: str = option("type of the weights", "int4", choices=tuple(WEIGHTS))
    group: int = option("columns of w that share a scale: 32, 64 or 128; 16 of nvf4; 0 for all", 128)
    zero_points: int = option("1 for zero points of int4", 0)
    dtype: str = option("type of x, scale and out", "f16", choices=TYPES)
    layout: str = option("how w lies in memory", "rows", choices=LAYOUTS)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """Rows of x are independent."""
        return {"m": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("m", "n", "k")
        if canonical(self.weights) in WEIGHTS:  # here "int8" is a format, not another spelling of i8
            self._take_types("weights")
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be {', '.join(WEIGHTS)}, not {self.weights!r}")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.group not in GROUPS:
            raise ValueError(f"group must be {', '.join(map(str, GROUPS))}, not {self.group!r}")
        if (self.group == FP4_GROUP) != (self.weights == "nvf4"):
            raise ValueError(f"group must be {FP4_GROUP} for nvf4, and only for nvf4, not {self.group}")
        if 0 < self.group < SPAN and not self.in_words:
            raise ValueError(f"group must be 0, 64 or 128 for {self.weights}, not {self.group}")
        if self.zero_points not in (0, 1) or (self.zero_points and self.weights != "int4"):
            raise ValueError(f"zero_points must be 0, or 1 for int4, not {self.zero_points!r} for {self.weights}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be {' or '.join(LAYOUTS)}, not {self.layout!r}")
        if self.k % SPAN or (self.group and self.k % self.group):
            raise ValueError(f"k must be a multiple of {max(SPAN, self.group)}, not {self.k}")

    @property
    def groups(self) -> int:
        """Number of scales per row of w."""
        return self.k // self.group if self.group else 1

    @property
    def in_words(self) -> bool:
        """True if w consists of words of eight weights."""
        return WEIGHTS[self.weights] == I32

    @property
    def order(self) -> MemoryOrder | None:
        """Memory order of w; None for rows."""
        return None if self.layout == "rows" else FRAGMENT_WORDS if self.in_words else FRAGMENT_BYTES

    @property
    def rows(self) -> int:
        """Rows of w; packed fragments are padded to whole tiles."""
        return self.n if self.order is None else -(-self.n // self.order.rows) * self.order.rows

    @property
    def columns(self) -> int:
        """Columns of w, in words or numbers."""
        return self.k // 8 if self.in_words else self.k

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w, scale and the optional zeros or global_scale, then out."""
        own, of = FLOAT_DTYPES[self.dtype], WEIGHTS[self.weights]
        w = (self.rows, self.columns)
        if self.order is not None:
            w = self.order.shape(*w)
        more = [Operand("zeros", "input", U8, (self.groups, self.n))] if self.zero_points else []
        if self.weights == "nvf4":
            more = [Operand("global_scale", "input", F32, (1,))]
        return (
            Operand("x", "input", own, (self.m, self.k)),
            Operand("w", "input", of, w),
            Operand("scale", "input", E4M3 if self.weights == "nvf4" else own, (self.groups, self.n)),
            *more,
            Operand("out", "output", own, (self.m, self.n)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for x, w and scale; their types and shapes determine format, layout and group."""
        if any(len(shapes[name]) != 2 for name in ("x", "w", "scale")):
            raise ValueError("quantized_matmul takes matrices x (m, k), w and scale (groups, n)")
        weights = {"i32": "int4", "i8": "int8"}.get(types["w"], types["w"])
        weights = "nvf4" if (weights, types["scale"]) == ("int4", "e4m3") else weights
        (m, k), (groups, n) = shapes["x"], shapes["scale"]
        layout = "rows" if shapes["w"][1] == (k // 8 if WEIGHTS.get(weights) == I32 else k) else "fragments"
        if not groups or k % groups:
            raise ValueError(f"scale must have a row for each group of x's {k} columns, not {groups} rows")
        group = 0 if groups == 1 else k // groups
        zero_points = int("zeros" in shapes)
        return cls(
            m=m, n=n, k=k, weights=weights, group=group, zero_points=zero_points, dtype=types["x"], layout=layout
        )

    def pack(self, weights: Array) -> Array:
        """Return weights in the layout that kernels of this problem read.

        Args:
            weights: Words of ``pack_int4``, or (n, k) of int8 or e4m3.

        Returns:
            The weights in the order of ``layout``.

        Raises:
            ValueError: Weights of another shape.
        """
        if weights.shape != (self.n, self.columns):
            raise ValueError(f"w must be ({self.n}, {self.columns}) to be packed, not {weights.shape}")
        return weights if self.order is None else pack_fragments(weights)

    @property
    def flops(self) -> float:
        """Operations of the product."""
        return 2.0 * self.m * self.n * self.k

    def views(self) -> Mapping[str, str]:
        """Return the operands' extents, with w in words or numbers."""
        more = {"zeros": "groups n"} if self.zero_points else {}
        more = {"global_scale": "one"} if self.weights == "nvf4" else more
        w = "rows words" if self.in_words else "rows k"
        return {"x": "m k", "w": w, "scale": "groups n", **more, "out": "m n"}

    def options(self) -> Mapping[str, Any]:
        """Return the fields; sums of nvf4 have one factor, because its groups are scaled before the product."""
        return {**super().options(), "group": 0 if self.weights == "nvf4" else self.group}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes m, n, k and groups, and the stored rows and words of w."""
        sizes = {"m": self.m, "n": self.n, "k": self.k, "words": self.k // 8, "groups": self.groups}
        return {**sizes, "rows": self.rows, "one": 1}

    @staticmethod
    def compute(
        p: Any, o: Any, x: Any, w: Any, scale: Any, out: Any, zeros: Any = None, global_scale: Any = None
    ) -> None:
        """Write the program with transposed tiles, because x may have few rows: sums have one row per column of out."""
        (m, k), n = x.shape, out.shape[1]
        in_words = WEIGHTS[o.weights] == I32
        if o.layout == "fragments":
            w = p.ordered(w, FRAGMENT_WORDS if in_words else FRAGMENT_BYTES)
        bn, parts = p.choose(bn=(64, 128), parts=(1, 2, 3, 4, 6, 8, 11, 16))
        spans = (SPAN, 2 * SPAN) if k % (2 * SPAN) == 0 and o.group in (0, 2 * SPAN) else (SPAN,)
        bk = p.choose(bk=spans)
        bm = p.choose(bm=_row_tiles(m))
        i, j = p.blocks((n, m), (bn, bm))
        acc = p.state(p.zeros((bn, bm)))

        def factor(at: Any) -> Any:
            if o.weights == "nvf4":
                return p.load(p.window(global_scale, (0, 0), (1, 1))) * 2.0**-FP4_EXPONENT
            found = p.load(p.window(scale, (i, at // o.group if o.group else 0), (bn, 1), turned=True)).cast("f32")
            return found * (1 / TIMES) if o.weights == "int4" and o.dtype == "f16" else found

        def part(at: Any, depth: int) -> Any:
            return p.transpose(p.load(p.window(x, (j, at), (bm, depth))))

        # Sums of groups need as many registers again. Many rows share what scaling weights costs.
        scales_weights = o.group and _row_tiles(m)[-1] == MOST_ROWS
        depth = min(o.group or bk, bk)
        for at in p.split(k, bk, parts=parts, states=(acc,), combine="add"):
            if in_words:
                words = p.load(p.window(w, (i, at // 8), (bn, bk // 8)))
            for first in range(0, bk, depth):
                here = at + first
                if o.weights == "nvf4":
                    of_words = p.load(p.window(scale, (i, here // FP4_GROUP), (bn, depth // FP4_GROUP), turned=True))
                    numbers = p.fp4(words, of_words, to=o.dtype)
                elif o.weights != "int4":
                    numbers = p.load(p.window(w, (i, here), (bn, depth))).cast("f32").cast(o.dtype)
                else:
                    zero = MIDDLE
                    if zeros is not None:
                        column = here // o.group if o.group else 0
                        zero = p.load(p.window(zeros, (i, column), (bn, 1), turned=True)).cast("i32")
                    own = range(4) if depth >= SPAN else range(first // DEPTH, (first + depth) // DEPTH)
                    numbers = p.nibbles(words, own, zero=zero, times=TIMES if o.dtype == "f16" else 1, to=o.dtype)
                if scales_weights:
                    numbers = (numbers.cast("f32") * factor(here)).cast(o.dtype)
                factors = part(here, depth)
                if o.group and not scales_weights:
                    acc.set(acc + p.mma(numbers, factors) * factor(here))
                else:
                    acc.set(p.mma(numbers, factors, acc))
        result = acc if o.group else acc * factor(0)
        p.store(result.cast(o.dtype), p.window(out, (i, j), (bn, bm), turned=True))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the product with dequantised weights in float64."""
        x = self.loaded(inputs)
        if self.order is not None:
            shape = (self.rows, self.columns)
            x["w"] = np.asarray(self.order.unpack(x["w"], shape)[: self.n], dtype=np.float64)
            inputs = {**inputs, "w": self.order.unpack(np.asarray(inputs["w"]), shape)[: self.n]}
        if self.weights == "int4":
            numbers = unpack_int4(np.asarray(inputs["w"])).astype(np.float64)
            zero = x["zeros"] if self.zero_points else np.full((self.groups, self.n), float(MIDDLE))
        elif self.weights == "nvf4":
            codes, zero = unpack_int4(np.asarray(inputs["w"])), np.zeros((self.groups, self.n))
            numbers = np.where(codes > 7, -1.0, 1.0) * FP4[codes & 7] * x["global_scale"][0]
        else:
            numbers, zero = x["w"], np.zeros((self.groups, self.n))
        width = self.group or self.k
        with np.errstate(invalid="ignore"):
            weights = (numbers - zero.T.repeat(width, axis=1)) * x["scale"].T.repeat(width, axis=1)
            return {"out": x["x"] @ weights.T}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, words of random bits, and positive scales."""
        found, rng = super().random_inputs(seed), np.random.default_rng((seed, 3))
        own = self.operand("scale").dtype
        found["scale"] = own.store(rng.uniform(0.005, 0.05, (self.groups, self.n)))
        if self.in_words:
            found["w"] = rng.integers(-(2**31), 2**31, found["w"].shape, dtype=np.int64).astype(np.int32)
        if self.zero_points:
            found["zeros"] = rng.integers(0, 16, found["zeros"].shape).astype(np.uint8)
        return found

    def reduced(self, turns: ReducedLoops) -> Self:
        """Return a problem with a few tiles of out, and k of several groups that exercises each part of the loop."""
        needed = max((turns.count + 1) * turns.chosen["bk"], 2 * self.group)
        widest = 2 * SPAN  # k % widest is preserved, since the choices of bk depend on it
        k = min(self.k, -(-needed // widest) * widest + self.k % widest)
        bm = turns.chosen["bm"]  # the choices of bm depend on m
        m = min(self.m, -(-_row_tiles(self.m)[-1] // (2 * bm)) * bm + (self.m % bm or bm))
        return replace(self, m=m, n=cut(self.n, turns.chosen["bn"]), k=k)


def _row_tiles(m: int) -> tuple[int, ...]:
    """Return the numbers of rows that a tile may have for ``m`` rows; no tile is more than twice as large as needed."""
    return tuple(size for size in (8, 16, 32, 64, 128, MOST_ROWS) if size < 2 * max(m, 8))
