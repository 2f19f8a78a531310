"""Matmul of 16-bit numbers with 4-bit or 8-bit weights, which are dequantised in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.packed_weights import SPAN
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut
from search_spaces.tile_operators.weight_formats import LAYOUTS, TYPES, WEIGHTS, StoredMatrix, WeightFormat

MOST_ROWS = 256  # largest number of rows of x in a tile


@dataclass(frozen=True)
class QuantizedMatmul(TileProblem):
    """``out = x @ dequantised(w).T``, for x (m, k) and weights with one row per column of out (m, n).

    ``weights`` is the format of w: "int4" for (n, k / 8) i32 words from ``pack_int4``, "int8" or "e4m3" for (n, k), and
    "nvf4" for e2m1 codes, packed like int4. A weight is ``(number - zero) * scale``.

    scale (groups, n), of x's type, has one scale per ``group`` columns of w, or one per row with ``group=0``. For nvf4,
    scales are e4m3, one per 16 columns, and all weights are also multiplied by global_scale (1,) of f32. The zero of
    int4 is 8 by default. With ``zero_points``, the array zeros (groups, n) of u8 has one zero (0 to 15) per scale. The
    zero of other formats is 0. With ``layout="fragments"``, w is packed by ``pack``, so that threads use 16-byte loads.

    The sum over each group is accumulated in f32 before it is scaled, so weights are not rounded. With over 128 rows of
    x, however, scaled weights of int4, int8 and e4m3 are rounded to x's type. The tolerance is the interpreter's bound
    for sums in any order.

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
    group: int = option("columns of w that share a scale: 32, 64, 128 (nvf4: 16), or 0 for all columns", 128)
    zero_points: int = option("1 for zero points of int4", 0)
    dtype: str = option("type of x, scale and out", "f16", choices=TYPES)
    layout: str = option("memory layout of w", "rows", choices=LAYOUTS)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``m``."""
        return {"m": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("m", "n", "k")
        if canonical(self.weights) in WEIGHTS:  # "int8" is a weight format in this operator, not another spelling of i8
            self._take_types("weights")
        self.format.verify(self.k)

    @property
    def format(self) -> WeightFormat:
        """Format of the weights."""
        return WeightFormat(self.weights, self.group, self.zero_points, self.dtype, self.layout)

    @property
    def groups(self) -> int:
        """Number of scales per row of w."""
        return self.format.scales(self.k)

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w, scale and the optional zeros or global_scale, then out."""
        own = FLOAT_DTYPES[self.dtype]
        return (
            Operand("x", "input", own, (self.m, self.k)),
            *self.format.operands(self.n, self.k),
            Operand("out", "output", own, (self.m, self.n)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for x, w and scale; their types and shapes determine format, layout and group."""
        if any(len(shapes[name]) != 2 for name in ("x", "w", "scale")):
            raise ValueError("quantized_matmul takes matrices x (m, k), w and scale (groups, n)")
        weights = WeightFormat.name_of(types["w"], types["scale"])
        (m, k), (groups, n) = shapes["x"], shapes["scale"]
        layout = WeightFormat.layout_of(weights, shapes["w"][1], k)
        group, zero_points = WeightFormat.group_of(k, groups), int("zeros" in shapes)
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
        return self.format.pack(weights, self.n, self.k)

    @property
    def flops(self) -> float:
        """Number of operations of the product."""
        return 2.0 * self.m * self.n * self.k

    def views(self) -> Mapping[str, str]:
        """Return the extents of each operand. A row of w has k numbers, or ``words`` if numbers are packed."""
        more = {"zeros": "groups n"} if self.zero_points else {}
        more = {"global_scale": "one"} if self.weights == "nvf4" else more
        w = "rows words" if self.format.in_words else "rows k"
        return {"x": "m k", "w": w, "scale": "groups n", **more, "out": "m n"}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes m, n, k and groups, and the stored rows and words of w."""
        sizes = {"m": self.m, "n": self.n, "k": self.k, "words": self.k // 8, "groups": self.groups}
        return {**sizes, "rows": self.format.rows(self.n), "one": 1}

    @staticmethod
    def compute(
        p: Any, o: Any, x: Any, w: Any, scale: Any, out: Any, zeros: Any = None, global_scale: Any = None
    ) -> None:
        """Write the tile program. As x may have few rows, tiles are transposed: a row per column of out."""
        (m, k), n = x.shape, out.shape[1]
        of = WeightFormat(o.weights, o.group, o.zero_points, o.dtype, o.layout)
        matrix = StoredMatrix(of, p, w if of.order is None else p.ordered(w, of.order), scale, zeros, global_scale)
        bn, parts = p.choose(bn=(64, 128), parts=(1, 2, 3, 4, 6, 8, 11, 16))
        bk = p.choose(bk=of.spans(k))
        bm = p.choose(bm=_row_tiles(m))
        i, j = p.blocks((n, m), (bn, bm))
        acc = p.state(p.zeros((bn, bm)))

        def part(at: Any, depth: int) -> Any:
            return p.transpose(p.load(p.window(x, (j, at), (bm, depth))))

        # With many rows of x, scale weights, not sums: all rows share the scaled weights, and fewer registers are used.
        scaled = of.sum_group > 0 and _row_tiles(m)[-1] == MOST_ROWS
        for at in p.split(k, bk, parts=parts, states=(acc,), combine="add"):
            matrix.add_products(acc, i, at, (bn, bk), part, scaled)
        p.store(matrix.result(acc, i, bn).cast(o.dtype), p.window(out, (i, j), (bn, bm), turned=True))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the product with dequantised weights in float64."""
        arrays = self.loaded(inputs)
        factor = float(arrays["global_scale"][0]) if "global_scale" in arrays else 1.0
        weights = self.format.dequantised(
            self._shaped(inputs)["w"], arrays["scale"], arrays.get("zeros"), factor, self.n, self.k
        )
        with np.errstate(invalid="ignore"):
            return {"out": arrays["x"] @ weights.T}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, words of random bits, and positive scales."""
        return super().random_inputs(seed) | self.format.random_arrays({o.name: o for o in self.operands()}, seed)

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield the edge cases of the format of quantised weights."""
        return self.format.edge_arrays(inputs)

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few tiles of out, and with enough iterations and groups along k for a split loop."""
        needed = max((loops.count + 1) * loops.chosen["bk"], 2 * self.group)
        widest = 2 * SPAN  # k % widest must not change, as the choices of bk depend on this remainder
        k = min(self.k, -(-needed // widest) * widest + self.k % widest)
        bm = loops.chosen["bm"]  # keep m, as the choices of bm depend on m
        m = min(self.m, -(-_row_tiles(self.m)[-1] // (2 * bm)) * bm + (self.m % bm or bm))
        return replace(self, m=m, n=cut(self.n, loops.chosen["bn"]), k=k)


def _row_tiles(m: int) -> tuple[int, ...]:
    """Return the candidate tile heights for ``m`` rows. Heights above 8 are less than twice ``m``."""
    return tuple(size for size in (8, 16, 32, 64, 128, MOST_ROWS) if size < 2 * max(m, 8))
