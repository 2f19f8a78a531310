"""Products of groups of rows with one matrix per group; the group sizes are known only on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import BF16, DTYPES, F32, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.packed_weights import SPAN
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut
from search_spaces.tile_operators.weight_formats import LAYOUTS, WEIGHTS, StoredMatrix, WeightFormat

TYPES = ("f16", "bf16", "e4m3")
BLOCK = 128  # number of columns of x, and of rows and columns of w, that share a scale of e4m3
ROWS = ("contiguous", "masked")
ACTIVATIONS = ("none", "silu_up")
ORDERS = ("row", "col")
PLAIN = "none"  # value of ``weights`` for weights that are not quantised
LATER = {"weights": PLAIN, "scale_group": 0, "zero_points": 0, "layout": "rows"}  # not in older databases


@dataclass(frozen=True)
class GroupedMatmul(TileProblem):
    """``out[i] = x[i] @ w[g]`` for the rows i of each group g, such as the experts of a mixture-of-experts layer.

    w is (groups, k, width), or (groups, width, k) with ``w_order="col"``. ``rows`` determines the other arrays' shapes:

    - "contiguous": x (m, k) sorted by group; ends (groups + 1,) of i32, ascending from 0 to m; out (m, n). Group g has
      the rows from ends[g] to ends[g + 1] - 1, and may be empty.
    - "masked": x (groups, m, k); ends (groups,) of i32; out (groups, m, n). Group g has the first ends[g] rows; the
      remaining rows of out are 0.

    With ``tokens``, x is (tokens, k), and token (m,) of i32 contains the row of x for each sorted row. An index outside
    x, such as -1, selects a row of zeros. With ``activation="silu_up"``, the result is ``silu(x @ gate) * (x @ up)``.
    Then w has width 2 n: the columns of gate, followed by the columns of up. Otherwise, its width is n. Sums are f32.

    For e4m3, x and w have f32 scales, out is bf16, and ``w_order`` is "col". x_scale has one scale for every 128
    columns of each row of x. w_scale (groups, width / 128, k / 128) has one scale per 128 x 128 elements; quotients are
    rounded up. Each partial sum over 128 columns is scaled in f32.

    ``weights`` other than "none" is a format of quantised weights (see ``QuantizedMatmul``), with ``w_order`` "col": w
    is (groups, width, k / 8) of i32 words, or (groups, width, k). w_scale and zeros are (groups, k / scale_group,
    width). For nvf4, each group also has an element of global_scale (groups,). With ``layout="fragments"``, w is packed
    by ``pack``. Sums are scaled in f32, so weights are not rounded.

    Raises ValueError for sizes below 1, unknown options, tokens with masked rows, and ``w_order="row"`` with e4m3 or
    quantised weights. With "silu_up", n must consist of whole scale blocks and whole packed tiles, if there are any.
    """

    operator: ClassVar[str] = "grouped_matmul"
    summary: ClassVar[str] = "rows of each group times the group's own matrix, with sizes on the device"
    inputs: ClassVar[tuple[str, ...]] = ("x", "w", "ends")
    optional_inputs: ClassVar[tuple[str, ...]] = ("token", "x_scale", "w_scale", "zeros", "global_scale")
    call_options: ClassVar[Mapping[str, Any]] = {"rows": "contiguous", "activation": "none", "w_order": "row"}
    size_fields: ClassVar[tuple[str, ...]] = ("m", "n", "k", "groups", "tokens")

    m: int = option("sorted rows of all groups together; with masked rows, rows per group", flag="-m")
    n: int = option("columns of out", flag="-n")
    k: int = option("columns of x", flag="-k")
    groups: int = option("groups, such as experts")
    tokens: int = option("rows of x, if the array token contains row numbers; 0 if x is sorted by group", 0)
    dtype: str = option("type of x, w and out; for e4m3, out is bf16", "bf16", choices=TYPES)
    rows: str = option("arrangement of the rows of groups", "contiguous", choices=ROWS)
    activation: str = option("activation function", "none", choices=ACTIVATIONS)
    w_order: str = option("order of the matrices of w", "row", choices=ORDERS)

    weights: str = option("format of quantised w, or none if w has type dtype", PLAIN, choices=(PLAIN, *WEIGHTS))
    scale_group: int = option("columns of quantised w that share a scale: 32, 64, 128 (nvf4: 16), or 0 for all", 0)
    zero_points: int = option("1 for zero points of int4", 0)
    layout: str = option("memory layout of quantised w", "rows", choices=LAYOUTS)

    def __post_init__(self) -> None:
        self._take_types("dtype")
        if canonical(self.weights) in WEIGHTS:  # "int8" is a weight format in this operator, not another spelling of i8
            self._take_types("weights")
        self._take_extents("m", "n", "k", "groups")
        self._take_sizes("tokens", least=0)
        for name, known in (
            ("dtype", TYPES), ("rows", ROWS), ("activation", ACTIVATIONS), ("w_order", ORDERS)
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(known)}, not {getattr(self, name)!r}")
        if self.tokens and self.rows == "masked":
            raise ValueError("tokens need contiguous rows: leave out tokens or rows")
        if self.scaled and self.w_order != "col":
            raise ValueError("w_order must be col for e4m3: store matrices as (n, k)")
        if self.scaled and self.activation == "silu_up" and self.n % BLOCK:
            raise ValueError(f"n must be a multiple of {BLOCK} for e4m3 with silu_up, not {self.n}")
        self._verify_weights()
        if self.groups * self.k * self.width >= 2**40 or self.groups * self.m * max(self.n, self.k) >= 2**40:
            raise ValueError("the arrays are too large: keep each under 2^40 elements")

    def _verify_weights(self) -> None:
        """Raise ValueError for unsupported options of quantised weights."""
        if not self.quantised:
            for name, default in LATER.items():
                if getattr(self, name) != default:
                    raise ValueError(f"{name} is for quantised weights: set weights to {', '.join(WEIGHTS)}")
            return
        self.format.verify(self.k, "scale_group")
        if self.w_order != "col":
            raise ValueError(f"w_order must be col for weights of {self.weights}: store matrices as (n, k)")
        if self.format.order is not None and self.activation == "silu_up" and self.n % self.format.order.rows:
            raise ValueError(f"n must be a multiple of {self.format.order.rows} for packed w and silu_up, not {self.n}")
        if self.groups * self.format.rows(self.width) >= 2**31:
            raise ValueError("the quantised matrices have too many rows: keep the total under 2^31")

    @property
    def quantised(self) -> bool:
        """True if w is in a format of quantised weights."""
        return self.weights != PLAIN

    @property
    def format(self) -> WeightFormat:
        """Format of quantised weights."""
        return WeightFormat(self.weights, self.scale_group, self.zero_points, self.dtype, self.layout)

    def to_json(self) -> dict[str, Any]:
        """Return the fields. For weights that are not quantised, omit fields that older databases do not have."""
        fields = super().to_json()
        return fields if self.quantised else {name: value for name, value in fields.items() if name not in LATER}

    @property
    def gathered(self) -> bool:
        """True if ``token`` selects rows of x."""
        return self.tokens > 0

    @property
    def scaled(self) -> bool:
        """True if x and w have scales, as e4m3 does."""
        return self.dtype == "e4m3"

    @property
    def width(self) -> int:
        """Number of columns of the matrix of one group."""
        return self.n * (2 if self.activation == "silu_up" else 1)

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w, the offsets or counts, and the optional token and scales, then out."""
        own, masked = DTYPES[self.dtype], self.rows == "masked"
        lead = (self.groups,) if masked else ()
        matrix = (self.k, self.width) if self.w_order == "row" else (self.width, self.k)
        token = [Operand("token", "input", I32, (self.m,))] if self.gathered else []
        rows = (self.tokens,) if self.gathered else (*lead, self.m)
        scales = [
            Operand("x_scale", "input", F32, (*rows, self.k_blocks)),
            Operand("w_scale", "input", F32, (self.groups, self.width_blocks, self.k_blocks)),
        ]
        w, more = Operand("w", "input", own, (self.groups, *matrix)), scales if self.scaled else []
        if self.quantised:
            w, *more = self.format.operands(self.width, self.k, self.groups, "w_scale")
        return (
            Operand("x", "input", own, (*rows, self.k)),
            w,
            Operand("ends", "input", I32, (self.groups if masked else self.groups + 1,)),
            *token,
            *more,
            Operand("out", "output", BF16 if self.scaled else own, (*lead, self.m, self.n)),
        )

    @property
    def k_blocks(self) -> int:
        """Number of scales along k."""
        return -(-self.k // BLOCK)

    @property
    def width_blocks(self) -> int:
        """Number of scales along the width of one matrix of w."""
        return -(-self.width // BLOCK)

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for x and w, with tokens if token is among the arrays."""
        x, w, masked = shapes["x"], shapes["w"], options.get("rows") == "masked"
        if len(w) != 3 or len(x) != (3 if masked else 2):
            raise ValueError(
                f"grouped_matmul takes w (groups, k, n) and x (m, k), or masked (groups, m, k), not {w} and {x}"
            )
        quantised = types["w"] != types["x"] != "e4m3" and types["w"] in {own.name for own in WEIGHTS.values()}
        if quantised:
            scale = shapes.get("w_scale", ())
            if len(scale) != 3:
                raise ValueError(f"w_scale must be (groups, scales, n) for w of {types['w']}, not {scale}")
            weights = WeightFormat.name_of(types["w"], types["w_scale"])
            options |= {"weights": weights, "zero_points": int("zeros" in shapes)}
            options |= {"scale_group": WeightFormat.group_of(x[-1], scale[1])}
            options |= {"layout": WeightFormat.layout_of(weights, w[2], x[-1])}
        width = scale[2] if quantised else w[2] if options.get("w_order", "row") == "row" else w[1]
        tokens = x[0] if "token" in shapes else 0
        m = shapes["token"][0] if tokens else x[-2]
        n = width // 2 if options.get("activation") == "silu_up" else width
        return cls(m=m, n=n, k=x[-1], groups=w[0], tokens=tokens, dtype=types["x"], **options)

    @property
    def flops(self) -> float:
        """Number of operations of the products of all rows, including unused rows of masked groups."""
        return 2.0 * self.m * self.width * self.k * (self.groups if self.rows == "masked" else 1)

    def views(self) -> Mapping[str, str]:
        """Return the operands' extents. They depend on ``rows``, ``tokens``, ``w_order``, ``dtype`` and ``weights``."""
        token = {"token": "m"} if self.gathered else {}
        lead = "groups " if self.rows == "masked" else ""
        scales = {"x_scale": "tokens k_blocks" if self.gathered else f"{lead}m k_blocks"}
        scales["w_scale"] = "groups width_blocks k_blocks"
        more, w = scales if self.scaled else {}, "groups k width" if self.w_order == "row" else "groups width k"
        if self.quantised:  # packed matrices of all groups form one matrix
            w = "stored_rows words" if self.format.in_words else "stored_rows k"
            names = [o.name for o in self.format.operands(self.width, self.k, self.groups, "w_scale")]
            more = {name: "groups" if name == "global_scale" else "groups scales width" for name in names[1:]}
        return {
            "x": "tokens k" if self.gathered else f"{lead}m k",
            "w": w,
            "ends": "groups" if lead else "ends",
            **token,
            **more,
            "out": f"{lead}m n",
        }

    def extents(self) -> Mapping[str, int]:
        """Return the sizes m, n, k and groups, the numbers of scales, and the stored rows and words of all matrices."""
        stored = {"stored_rows": self.groups * self.format.rows(self.width), "words": self.k // 8}
        more = {**stored, "scales": self.format.scales(self.k)} if self.quantised else {}
        return {
            "m": self.m, "n": self.n, "k": self.k, "groups": self.groups, "width": self.width,
            "ends": self.groups + 1, "tokens": self.tokens,
            "k_blocks": self.k_blocks, "width_blocks": self.width_blocks, **more,
        }  # fmt: skip

    @staticmethod
    def compute(p: Any, o: Any, x: Any, w: Any, ends: Any, out: Any, token: Any = None, **scales: Any) -> None:
        """Write the tile program: each block finds the group of its tile; blocks without a tile do nothing."""
        k, quantised = x.shape[-1], o.weights != PLAIN
        if quantised:
            of = WeightFormat(o.weights, o.scale_group, o.zero_points, o.dtype, o.layout)
            bm, bn, bk = p.choose(bm=(16, 32, 64, 128), bn=(64, 128), bk=of.spans(k))
        elif scales:  # an iteration needs one scale of w, and one scale per row of x
            bm, bn, bk = p.choose(bm=(16, 64, 128, 256), bn=(64, 128), bk=(BLOCK,))
        else:
            bm, bn, bk = p.choose(bm=(16, 64, 128, 256), bn=(64, 128, 256), bk=(32, 64, 128))
        group, row, end, used, j, x, out = _tile_of_block(p, o.rows == "masked", ends, x, out, bm, bn)
        chosen = row if token is None else p.load(p.window(token, (row, 0), (bm, 1), column=True), padding=-1)
        halves = (0, out.shape[-1]) if o.activation == "silu_up" else (0,)
        tile = (bn, bm) if quantised else (bm, bn)  # tiles are transposed if w is quantised, as x may have few rows
        sums = [p.state(p.zeros(tile)) for _ in halves]
        if quantised:
            first_row = group * of.rows(scales["w_scale"].shape[-1])
            of_group = {name: scales[name][group] for name in ("w_scale", "zeros") if name in scales}
            matrix = StoredMatrix(
                of, p, w if of.order is None else p.ordered(w, of.order), of_group["w_scale"],
                of_group.get("zeros"), scales.get("global_scale"), first_row, group,
            )  # fmt: skip

            def part(at: Any, depth: int) -> Any:
                return p.transpose(p.load(p.window(x, (chosen, at), (bm, depth))))

            for at in p.steps(used * k, bk):
                for acc, half in zip(sums, halves, strict=True):
                    matrix.add_products(acc, j + half, at, (bn, bk), part)
            done = [matrix.result(acc, j + half, bn) for acc, half in zip(sums, halves, strict=True)]
            _store(p, o, [p.transpose(result) for result in done], out, row, j, end, (bm, bn))
            return
        own = w[group]
        for at in p.steps(used * k, bk):
            left = p.load(p.window(x, (chosen, at), (bm, bk)))
            for acc, half in zip(sums, halves, strict=True):
                if o.w_order == "row":
                    right = p.load(p.window(own, (at, j + half), (bk, bn)))
                else:
                    right = p.transpose(p.load(p.window(own, (j + half, at), (bn, bk))))
                if not scales:
                    acc.set(p.mma(left, right, acc))
                    continue
                of_x = scales["x_scale"][group] if o.rows == "masked" else scales["x_scale"]
                of_rows = p.load(p.window(of_x, (chosen, at // BLOCK), (bm, 1)))
                position = (j + half) // BLOCK, at // BLOCK
                of_block = p.load(p.window(scales["w_scale"][group], position, (1, 1)))
                acc.set(acc + p.mma(left, right) * (of_rows * of_block))
        _store(p, o, [acc.read() for acc in sums], out, row, j, end, (bm, bn))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the scaled and activated products of all groups in float64."""
        x = self.loaded(inputs)
        ends, rows = x["ends"].astype(np.int64), x["x"]
        if self.scaled:
            along = np.arange(self.k) // BLOCK
            rows = rows * x["x_scale"][..., along]
            x["w"] = x["w"] * x["w_scale"][:, np.arange(self.width) // BLOCK][:, :, along]
        if self.quantised:
            stored, zeros, factors = self._shaped(inputs)["w"], x.get("zeros"), x.get("global_scale")
            x["w"] = np.stack(
                [
                    self.format.dequantised(
                        stored[g], x["w_scale"][g], None if zeros is None else zeros[g],
                        1.0 if factors is None else float(factors[g]), self.width, self.k,
                    )
                    for g in range(self.groups)
                ]
            )  # fmt: skip
        if self.gathered:
            token = x["token"].astype(np.int64)
            inside = (token >= 0) & (token < self.tokens)
            rows = np.where(inside[:, None], rows[np.where(inside, token, 0)], 0.0)
        out = np.zeros(self.operand("out").shape)
        for g, matrix in enumerate(x["w"]):
            own = matrix if self.w_order == "row" else matrix.T
            with np.errstate(invalid="ignore"):
                if self.rows == "masked":
                    count = int(np.clip(ends[g], 0, self.m))
                    out[g, :count] = self._finished(rows[g, :count] @ own)
                else:
                    part = slice(int(ends[g]), int(ends[g + 1]))
                    out[part] = self._finished(rows[part] @ own)
        return {"out": out}

    def _finished(self, product: FloatArray) -> FloatArray:
        if self.activation == "none":
            return product
        gate, up = product[:, : self.n], product[:, self.n :]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(gate / (1.0 + np.exp(-gate)) * up)

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few tiles and scale blocks.

        With contiguous rows, the number of groups is unchanged, because each block searches for its group.
        """
        bm, bn, bk = (loops.chosen[name] for name in ("bm", "bn", "bk"))
        masked = self.rows == "masked"
        k = loops.count * bk + (self.k % bk or bk)
        if self.quantised:
            widest = 2 * SPAN  # k % widest must not change, as the choices of bk depend on it
            k = -(-max(k, 2 * self.scale_group) // widest) * widest + self.k % widest
        return replace(
            self,
            m=cut(self.m, bm) if masked else min(self.m, 2 * bm + 7),
            n=cut(self.n, max(bn, BLOCK) if self.scaled else bn),
            k=min(self.k, k),
            groups=min(self.groups, 3) if masked else self.groups,
            tokens=min(self.tokens, 40),
        )

    def pack(self, weights: Array) -> Array:
        """Return quantised weights in the layout that kernels of this problem read.

        Args:
            weights: (groups, width, k / 8) words of ``pack_int4``, or (groups, width, k) of int8 or e4m3.

        Returns:
            The weights in the order of ``layout``.

        Raises:
            ValueError: Weights of another shape, or weights that are not quantised.
        """
        if not self.quantised:
            return super().pack(weights)
        return self.format.pack(weights, self.width, self.k, self.groups)

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, ascending offsets, and random quantised weights with positive scales."""
        inputs = super().random_inputs(seed)
        if self.quantised:
            inputs |= self.format.random_arrays({o.name: o for o in self.operands()}, seed, "w_scale")
        return inputs

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield the edge cases of the format of quantised weights."""
        return self.format.edge_arrays(inputs, "w_scale") if self.quantised else iter(())


def _tile_of_block(p: Any, masked: bool, ends: Any, x: Any, out: Any, bm: int, bn: int) -> tuple[Any, ...]:
    """Return a block's group, first row, end of the group's rows, 1 if the block has rows or 0, column, x and out."""
    groups, n = ends.shape[0] - (0 if masked else 1), out.shape[-1]
    if masked:
        group, i, j = p.blocks((groups, out.shape[1], n), (1, bm, bn))
        count = p.load_scalar(ends, group, high=out.shape[1])
        return group, i, count, p.minimum(p.maximum(count - i, 0), 1), j, x[group], out[group]
    m = out.shape[0]
    i, j = p.blocks((m + groups * (bm - 1), n), (bm, bn))  # enough tiles for any group sizes
    tile = i // bm
    number, begun = p.find_tile(ends, tile, bm, high=m)
    begin, end = (p.load_scalar(ends, number + at, high=m, ordered=True) for at in (0, 1))
    row = p.minimum(p.maximum(begin + (tile - begun) * bm, 0), m)
    return p.minimum(number, groups - 1), row, end, p.minimum(p.maximum(end - row, 0), 1), j, x, out


def _store(p: Any, o: Any, sums: list[Any], out: Any, row: Any, column: Any, end: Any, shape: tuple[int, int]) -> None:
    """Apply the activation to a tile's sums, and store rows before ``end``. If rows are masked, set others to 0."""
    result, type_ = sums[0], "bf16" if o.dtype == "e4m3" else o.dtype
    if o.activation == "silu_up":
        result = result * p.sigmoid(result) * sums[1]
    if o.rows == "masked":
        result = p.where(p.rows(row, shape[0]) < p.rows(end, 1), result, 0.0)
        p.store(result.cast(type_), p.window(out, (row, column), shape))
    else:
        p.store(result.cast(type_), p.window(out, (row, column), shape), rows_below=end)
