"""Products of 16-bit numbers with weights of 4 or 8 bits, which are taken apart in registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import E4M3, FLOAT_DTYPES, I8, I32, U8
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import option
from search_spaces.tile_operators.packed_weights import SPAN, pack_int4, unpack_int4
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut

TYPES = ("f16", "bf16")
WEIGHTS = {"int4": I32, "int8": I8, "e4m3": E4M3}
GROUPS = (0, 32, 64, 128)
DEPTH = 16  # of one product of tensor cores, and of the numbers of a word that have one place in their halves
MIDDLE = 8  # what numbers of four bits are less by, without zero points


@dataclass(frozen=True)
class QuantizedMatmul(TileProblem):
    """``out = x @ dequantised(w).T``, of x (m, k) and weights with a row for each column of out (m, n).

    ``weights`` is "int4", whose w (n, k / 8) of i32 ``pack`` makes of numbers from 0 to 15; or "int8" or "e4m3", whose
    w is (n, k). A weight is ``(number - zero) * scale``, with scale (groups, n) of x's type: one for each ``group``
    columns of w, or one for each row with ``group=0``. The zero is that of zeros (groups, n) of u8 with
    ``zero_points`` (0 to 15, of int4 alone), else 8 of int4 and 0 of the others.

    Sums of a group are made in f32 and then scaled, so that weights lose nothing. The tolerance is the interpreter's
    bound for sums in any order.

    Raises ValueError for sizes below 1, unknown types, k that is not a multiple of 64 or of the group, and zero points
    of other weights than int4.
    """

    operator: ClassVar[str] = "quantized_matmul"
    summary: ClassVar[str] = "out = x @ w.T with weights of int4, int8 or e4m3 and scales of groups"
    inputs: ClassVar[tuple[str, ...]] = ("x", "w", "scale")
    optional_inputs: ClassVar[tuple[str, ...]] = ("zeros",)
    size_fields: ClassVar[tuple[str, ...]] = ("m", "n", "k")

    m: int = option("rows of x and out", flag="-m")
    n: int = option("columns of out, rows of w", flag="-n")
    k: int = option("columns of x, numbers in a row of w", flag="-k")
    weights: str = option("type of the weights", "int4", choices=tuple(WEIGHTS))
    group: int = option("columns of w that share a scale: 32, 64 or 128; 0 for all", 128)
    zero_points: int = option("1 for zero points of int4", 0)
    dtype: str = option("type of x, scale and out", "f16", choices=TYPES)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        return {"m": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("m", "n", "k")
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be {', '.join(WEIGHTS)}, not {self.weights!r}")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.group not in GROUPS:
            raise ValueError(f"group must be {', '.join(map(str, GROUPS))}, not {self.group!r}")
        if 0 < self.group < SPAN and self.weights != "int4":
            raise ValueError(f"group must be 0, 64 or 128 of {self.weights}, not {self.group}")
        if self.zero_points not in (0, 1) or (self.zero_points and self.weights != "int4"):
            raise ValueError(f"zero_points must be 0, or 1 of int4, not {self.zero_points!r} of {self.weights}")
        if self.k % SPAN or (self.group and self.k % self.group):
            raise ValueError(f"k must be a multiple of {max(SPAN, self.group)}, not {self.k}")

    @property
    def groups(self) -> int:
        """Scales of a row of w."""
        return self.k // self.group if self.group else 1

    def operands(self) -> tuple[Operand, ...]:
        own, of = FLOAT_DTYPES[self.dtype], WEIGHTS[self.weights]
        zeros = [Operand("zeros", "input", U8, (self.groups, self.n))] if self.zero_points else []
        return (
            Operand("x", "input", own, (self.m, self.k)),
            Operand("w", "input", of, (self.n, self.k // 8 if self.weights == "int4" else self.k)),
            Operand("scale", "input", own, (self.groups, self.n)),
            *zeros,
            Operand("out", "output", own, (self.m, self.n)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        if any(len(shapes[name]) != 2 for name in ("x", "w", "scale")):
            raise ValueError("quantized_matmul takes matrices x (m, k), w and scale (groups, n)")
        weights = {"i32": "int4", "i8": "int8"}.get(types["w"], types["w"])
        (m, k), (n, _), groups = shapes["x"], shapes["w"], shapes["scale"][0]
        if k % groups:
            raise ValueError(f"scale must have a row for each group of x's {k} columns, not {groups} rows")
        group = 0 if groups == 1 else k // groups
        return cls(m=m, n=n, k=k, weights=weights, group=group, zero_points=int("zeros" in shapes), dtype=types["x"])

    @staticmethod
    def pack(weights: Array) -> Array:
        """Return numbers of four bits (n, k) as kernels take them: see ``packed_weights.pack_int4``."""
        return pack_int4(weights)

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    def views(self) -> Mapping[str, str]:
        zeros = {"zeros": "groups n"} if self.zero_points else {}
        w = "n words" if self.weights == "int4" else "n k"
        return {"x": "m k", "w": w, "scale": "groups n", **zeros, "out": "m n"}

    def extents(self) -> Mapping[str, int]:
        return {"m": self.m, "n": self.n, "k": self.k, "words": self.k // 8, "groups": self.groups}

    @staticmethod
    def compute(p: Any, o: Any, x: Any, w: Any, scale: Any, out: Any, zeros: Any = None) -> None:
        """Tiles are transposed, as rows of x may be few: sums have a row for each column of out."""
        (m, k), n = x.shape, out.shape[1]
        bn, parts = p.choose(bn=(64, 128), parts=(1, 2, 4, 8, 16))
        bm = p.choose(bm=tuple(size for size in (8, 16, 32, 64, 128, 256) if size < 2 * max(m, 8)))
        i, j = p.blocks((n, m), (bn, bm))
        acc = p.state(p.zeros((bn, bm)))

        def factor(at: Any) -> Any:
            return p.load(p.window(scale, (i, at // o.group if o.group else 0), (bn, 1), turned=True)).cast("f32")

        def scaled(sums: Any, at: Any) -> Any:
            return sums * factor(at) if o.group else sums

        def part(at: Any, depth: int) -> Any:
            return p.transpose(p.load(p.window(x, (j, at), (bm, depth))))

        for at in p.split(k, SPAN, parts=parts, states=(acc,), combine="add"):
            if o.weights != "int4":
                numbers = p.load(p.window(w, (i, at), (bn, SPAN))).cast("f32").cast(o.dtype)
                of_span = part(at, SPAN)
                acc.set(acc + scaled(p.mma(numbers, of_span), at) if o.group else p.mma(numbers, of_span, acc))
                continue
            words = p.load(p.window(w, (i, at // 8), (bn, SPAN // 8)))
            sums: Any = None if o.group else acc
            for e in range(SPAN // DEPTH):
                here = at + e * DEPTH
                if o.group and (e * DEPTH) % o.group == 0:
                    sums = None
                zero = MIDDLE
                if zeros is not None:
                    column = here // o.group if o.group else 0
                    zero = p.load(p.window(zeros, (i, column), (bn, 1), turned=True)).cast("i32")
                sums = p.mma(p.nibbles(words, e, zero=zero, to=o.dtype), part(here, DEPTH), sums)
                if o.group and ((e + 1) * DEPTH % o.group == 0 or (e + 1) * DEPTH == SPAN):
                    acc.set(acc + scaled(sums, here))
            if not o.group:
                acc.set(sums)
        result = acc if o.group else acc * factor(0)
        p.store(result.cast(o.dtype), p.window(out, (i, j), (bn, bm), turned=True))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        x = self.loaded(inputs)
        if self.weights == "int4":
            numbers = unpack_int4(np.asarray(inputs["w"])).astype(np.float64)
            zero = x["zeros"] if self.zero_points else np.full((self.groups, self.n), float(MIDDLE))
        else:
            numbers, zero = x["w"], np.zeros((self.groups, self.n))
        width = self.group or self.k
        with np.errstate(invalid="ignore"):
            weights = (numbers - zero.T.repeat(width, axis=1)) * x["scale"].T.repeat(width, axis=1)
            return {"out": x["x"] @ weights.T}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return the usual ones, words of random bits, and positive scales."""
        found, rng = super().random_inputs(seed), np.random.default_rng((seed, 3))
        own = FLOAT_DTYPES[self.dtype]
        found["scale"] = own.store(rng.uniform(0.005, 0.05, (self.groups, self.n)))
        if self.weights == "int4":
            found["w"] = rng.integers(-(2**31), 2**31, found["w"].shape, dtype=np.int64).astype(np.int32)
        if self.zero_points:
            found["zeros"] = rng.integers(0, 16, found["zeros"].shape).astype(np.uint8)
        return found

    def reduced(self, turns: ReducedLoops) -> Self:
        """Return one with a few tiles of out, and k that fills each part of the loop."""
        unit = max(SPAN, self.group)
        k = min(self.k, -(-(turns.count + 1) * SPAN // unit) * unit)
        return replace(self, m=cut(self.m, turns.chosen["bm"]), n=cut(self.n, turns.chosen["bn"]), k=k)
