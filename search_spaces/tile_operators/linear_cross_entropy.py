"""Cross entropy of the rows of a linear layer, without its logits in memory.

``LinearCrossEntropy`` multiplies tiles of x and w. For each row of a tile of logits it stores three numbers: the
maximum, the sum of exponentials, and the logit of the label. A second launch combines them.
``LinearCrossEntropyDlogits`` recomputes the logits and returns their gradient, from which two products compute the
gradients of x and w. A caller passes some rows at a time to keep the array of gradients small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.part import Indices
from search_spaces.operators.problem import ProblemPart, option
from search_spaces.templates.matmul.proxy import LEAST_TILES
from search_spaces.templates.matmul.stream_k import streams
from search_spaces.tile_operators.cross_entropy import STEEPEST, edge_labels, gradients, labels_of_rows, losses
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_pipeline import ProgramStep, TilePipeline
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileOperator, TileProblem

TYPES = ("f16", "bf16")
PART = 128  # columns of a tile of logits; for each tile, three numbers per row are stored


@dataclass(frozen=True)
class _OfLinearLayer(TileOperator):
    """Fields that both problems share: logits are ``x @ w.T`` for x (rows, k) and w (columns, k)."""

    size_fields: ClassVar[tuple[str, ...]] = ("rows", "columns", "k")

    rows: int = option("rows of x")
    columns: int = option("rows of w: the vocabulary")
    k: int = option("columns of x and w", flag="-k")
    dtype: str = option("type of x and w, and of a gradient", "bf16", choices=TYPES)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        return {"rows": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("rows", "columns", "k")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if max(self.rows, self.columns) * self.k >= 2**40 or self.rows * self.columns >= 2**40:
            raise ValueError("the arrays are too large: x, w and the logits must each have under 2^40 elements")

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        x, w = shapes["x"], shapes["w"]
        if len(x) != 2 or len(w) != 2:
            raise ValueError(f"{cls.operator} takes x (rows, k) and w (columns, k), not {x} and {w}")
        return cls(rows=x[0], columns=w[0], k=x[1], dtype=types["x"], **options)

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.columns * self.k

    def extents(self) -> Mapping[str, int]:
        return {"m": self.rows, "n": self.columns, "k": self.k}

    def _factors(self) -> tuple[Operand, ...]:
        own = FLOAT_DTYPES[self.dtype]
        return (
            Operand("x", "input", own, (self.rows, self.k)),
            Operand("w", "input", own, (self.columns, self.k)),
            Operand("label", "input", I32, (self.rows,)),
        )

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal x and w, and labels, some of them outside the columns."""
        return super().random_inputs(seed) | {"label": labels_of_rows(self.rows, self.columns, seed)}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield labels inside and outside of the columns, at both ends."""
        for first in (0, 2, 4):
            yield StressInputs(("label: edges",), {**inputs, "label": edge_labels(self.rows, self.columns, first)})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a small k, three tiles of rows, and enough columns for two iterations of the loop.

        The numbers of tiles differ, so that swapped rows and columns are detected.
        """
        bm, bk = loops.chosen["bm"], loops.chosen["bk"]
        tile, tiles = loops.chosen.get("bn", PART), (3, loops.chosen.get("width", 1) + 1)
        if loops.streamed:
            tiles = _with_partial_wave(tiles, (-(-self.rows // bm), -(-self.columns // tile)))
        return replace(
            self,
            rows=_whole_tiles(self.rows, bm, tiles[0]),
            columns=_whole_tiles(self.columns, tile, tiles[1]),
            k=_whole_tiles(self.k, bk, loops.count + 1),
        )


def _whole_tiles(size: int, tile: int, count: int) -> int:
    """Return the extent of ``count`` tiles, the last of which is as long as the last tile of ``size``."""
    return min(size, (count - 1) * tile + (size % tile or tile))


def _with_partial_wave(least: tuple[int, int], most: tuple[int, int]) -> tuple[int, int]:
    """Return the fewest tiles of rows and columns with which stream-K has whole and partial waves.

    Args:
        least: Lower limits of the numbers.
        most: Upper limits: the numbers of the original problem.

    Returns:
        The numbers of tiles, each at most four above its lower limit; ``most`` if there are no such numbers.
    """
    ranges = (range(min(a, b), min(a + 4, b) + 1) for a, b in zip(least, most, strict=True))
    usable = [(m, n) for m, n in product(*ranges) if m * n >= LEAST_TILES and streams(m * n)]
    return min(usable, key=lambda tiles: tiles[0] * tiles[1], default=most)


def _product(p: Any, x: Any, w: Any, position: tuple[Any, Any], shape: tuple[int, int, int]) -> Any:
    """Return the (bm, bn) tile of ``x @ w.T`` at ``position``, summed over k in steps of bk."""
    (i, j), (bm, bn, bk) = position, shape
    sums = p.state(p.zeros((bm, bn)))
    for at in p.steps(x.shape[1], bk):
        left, right = p.load(p.window(x, (i, at), (bm, bk))), p.load(p.window(w, (j, at), (bn, bk)))
        sums.set(p.mma(left, p.transpose(right), sums))
    return sums.read()


@dataclass(frozen=True)
class LinearCrossEntropy(_OfLinearLayer, TilePipeline):
    """Loss of each row of x: ``log(sum(exp(logits))) - logits[label]`` for ``logits = x @ w.T``.

    Arrays: x (rows, k) and w (columns, k) of ``dtype``, label (rows,) of i32; loss (rows,) and lse (rows,) of f32. lse
    is the logarithm of the sum. Logits are f32 and stay in registers. A label outside the columns, such as -100, gives
    a loss of 0. The tolerance is the interpreter's bound. Raises ValueError for sizes below 1 and unknown types.
    """

    operator: ClassVar[str] = "linear_cross_entropy"
    summary: ClassVar[str] = "the cross entropy of rows after a linear layer, without their logits in memory"
    inputs: ClassVar[tuple[str, ...]] = ("x", "w", "label")
    outputs: ClassVar[int] = 2

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w and label, then loss and lse."""
        return (
            *self._factors(),
            Operand("loss", "output", F32, (self.rows,)),
            Operand("lse", "output", F32, (self.rows,)),
        )

    @property
    def varied(self) -> tuple[str, ...]:
        """Only x gets edge cases."""
        return ("x",)

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield edge cases of labels, with negative logits that rise from column to column."""
        x, w = (np.abs(self.loaded(inputs)[name]) + 0.5 for name in ("x", "w"))
        w *= np.linspace(-2.0, -1.0, self.columns)[:, None] * (STEEPEST / 64.0 / self.k)
        of = {name: self.operand(name).dtype.store(array) for name, array in (("x", x), ("w", w))}
        for case in super().own_cases(inputs):
            yield StressInputs((*case.cases, "logits: low and rising"), {**case.inputs, **of})

    @property
    def tiles(self) -> int:
        """Number of tiles of columns. For each tile, three numbers per row are stored."""
        return -(-self.columns // PART)

    def extents(self) -> Mapping[str, int]:
        """Return the sizes of the linear layer, and the number of tiles of columns."""
        return {**super().extents(), "tiles": self.tiles}

    def options(self) -> Mapping[str, Any]:
        """Return the type and the number of columns. The second program needs this number to check labels."""
        return {**super().options(), "columns": self.columns}

    def steps(self) -> tuple[ProgramStep, ...]:
        """Return two steps: one reduces each tile of logits to three numbers per row; the other combines them."""
        own = {o.name: o for o in self.operands()}
        kept = tuple(Operand(name, "output", F32, (self.tiles, self.rows)) for name in ("top", "total", "own"))
        views = {"x": "m k", "w": "n k", "label": "m", "loss": "m", "lse": "m"} | {o.name: "tiles m" for o in kept}
        first = (*(own[name] for name in self.inputs), *kept)
        second = (own["label"], *(replace(o, role="input") for o in kept), own["loss"], own["lse"])
        return (
            ProgramStep("products", _products, first, {o.name: views[o.name] for o in first}),
            ProgramStep("sums", _sums, second, {o.name: views[o.name] for o in second}),
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``losses`` of ``x @ w.T`` in float64."""
        x = self.loaded(inputs)
        with np.errstate(all="ignore"):
            return losses(x["x"] @ x["w"].T, x["label"])


@dataclass(frozen=True)
class LinearCrossEntropyDlogits(_OfLinearLayer, TileProblem):
    """Gradient of the logits ``x @ w.T``: ``(exp(logits - lse) - (column == label)) * dloss``.

    Arrays: x, w and label as in ``LinearCrossEntropy``; lse (rows,) of f32, an output of that problem; dloss (rows,) of
    f32, the gradient of the losses; dlogits (rows, columns) of ``dtype``. Rows of dlogits whose label is outside the
    columns are 0. The gradients of x and w are ``dlogits @ w`` and ``dlogits.T @ x``. The tolerance is the
    interpreter's bound. Raises ValueError for sizes below 1 and unknown types.
    """

    operator: ClassVar[str] = "linear_cross_entropy_dlogits"
    summary: ClassVar[str] = "the gradient of a linear layer's logits under cross entropy"
    inputs: ClassVar[tuple[str, ...]] = ("x", "w", "label", "lse", "dloss")

    def operands(self) -> tuple[Operand, ...]:
        """Return x, w, label, lse and dloss, then dlogits."""
        return (
            *self._factors(),
            Operand("lse", "input", F32, (self.rows,)),
            Operand("dloss", "input", F32, (self.rows,)),
            Operand("dlogits", "output", FLOAT_DTYPES[self.dtype], (self.rows, self.columns)),
        )

    def views(self) -> Mapping[str, str]:
        """Return the extents m (rows), n (columns) and k of each operand."""
        return {"x": "m k", "w": "n k", "label": "m", "lse": "m", "dloss": "m", "dlogits": "m n"}

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield smaller problems with few rows and all of w, for full verifications of large gradients."""
        return self.tile_problem().parts(positions)

    @staticmethod
    def compute(p: Any, o: Any, x: Any, w: Any, label: Any, lse: Any, dloss: Any, dlogits: Any) -> None:
        """Write the tile program: each block recomputes a tile of logits and stores the tile's gradient."""
        m, n = dlogits.shape
        bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128, 256), bk=(32, 64))
        i, j = p.blocks((m, n), (bm, bn))
        wanted = p.load(p.window(label, (i, 0), (bm, 1), column=True))
        sums, scale = (p.load(p.window(array, (i, 0), (bm, 1), column=True)) for array in (lse, dloss))
        counts = (p.full((bm, 1), -1, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))
        shares = p.exp2((_product(p, x, w, (i, j), (bm, bn, bk)) - sums) * LOG2_E)
        own = p.where(p.columns(j, bn) == wanted, 1.0, 0.0)
        result = p.where(counts, (shares - own) * scale, 0.0)
        p.store(result.cast(o.dtype), p.window(dlogits, (i, j), (bm, bn)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``gradients`` of ``x @ w.T`` in float64."""
        x = self.loaded(inputs)
        with np.errstate(all="ignore"):
            logits = x["x"] @ x["w"].T
        return {"dlogits": gradients(logits, x["label"], x["lse"], x["dloss"])}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return the layer's random inputs, dloss, and the lse that matches x and w."""
        inputs = super().random_inputs(seed)
        x, w = (FLOAT_DTYPES[self.dtype].load(inputs[name]) for name in ("x", "w"))
        inputs["lse"] = losses(x @ w.T, inputs["label"])["lse"].astype(np.float32)
        return inputs


def _products(p: Any, o: Any, /, **arrays: Any) -> None:
    """Write the tile program of logits: each block reduces a tile of logits to three numbers per row."""
    x, w, label = (arrays[name] for name in ("x", "w", "label"))
    m, n = x.shape[0], w.shape[0]
    bm, bk = p.choose(bm=(64, 128, 256), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, PART))
    wanted = p.load(p.window(label, (i, 0), (bm, 1), column=True))
    columns = p.columns(j, PART)
    logits = p.where(columns < n, _product(p, x, w, (i, j), (bm, PART, bk)), -inf)
    top = p.reduction("maximumf", logits, dim=1)
    centre = p.where(top == -inf, 0.0, top)
    left = {
        "top": top,
        "total": p.reduction("add", p.exp2((logits - centre) * LOG2_E), dim=1),
        "own": p.reduction("add", p.where((columns == wanted) & (columns < n), logits, 0.0), dim=1),
    }
    for name, kept in left.items():
        p.store(kept, p.window(arrays[name], (i, j // PART), (bm, 1), turned=True))


def _sums(p: Any, o: Any, /, **arrays: Any) -> None:
    """Write the tile program that combines the three numbers of all tiles of a row."""
    parts, m = arrays["top"].shape
    rows, width = p.choose(rows=(16, 32, 64), width=(4, 8))
    (i,) = p.blocks((m,), (rows,))
    wanted = p.load(p.window(arrays["label"], (i, 0), (rows, 1), column=True))
    top, total = p.state(p.full((rows, 1), -inf)), p.state(p.zeros((rows, 1)))
    own = p.state(p.zeros((rows, 1)))
    for at in p.steps(parts, width):
        tops = p.load(p.window(arrays["top"], (i, at), (rows, width), turned=True), padding=-inf)
        totals, owns = (p.load(p.window(arrays[n], (i, at), (rows, width), turned=True)) for n in ("total", "own"))
        peak = p.maximum(top, p.reduction("maximumf", tops, dim=1))
        centre = p.where(peak == -inf, 0.0, peak)
        fade = p.exp2((top - centre) * LOG2_E)
        total.set(total * fade + p.reduction("add", totals * p.exp2((tops - centre) * LOG2_E), dim=1))
        own.set(own + p.reduction("add", owns, dim=1))
        top.set(peak)
    sums = p.log2(total) * (1.0 / LOG2_E) + p.where(top == -inf, 0.0, top)
    p.store(sums, p.window(arrays["lse"], (i, 0), (rows, 1), column=True))
    counts = (p.full((rows, 1), -1, "i32") < wanted) & (wanted < p.full((rows, 1), o.columns, "i32"))
    p.store(p.where(counts, sums - own, 0.0), p.window(arrays["loss"], (i, 0), (rows, 1), column=True))
