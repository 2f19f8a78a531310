"""Cross entropy of logits over a vocabulary, and the gradient of the logits. Each reads the logits once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut

STEEP, STEEPEST = (
    16.0,
    2.0**15,
)  # test logits change by STEEP per column, up to STEEPEST: e^89 overflows f32, 65504 is the largest f16


def losses(logits: FloatArray, label: Array) -> dict[str, FloatArray]:
    """Return ``loss`` and ``lse``, both of shape (rows,), for logits (rows, columns) and labels (rows,)."""
    labels, (rows, columns) = label.astype(np.int64), logits.shape
    with np.errstate(all="ignore"):
        peak = logits.max(axis=1)
        centre = np.where(peak == -np.inf, 0.0, peak)
        lse = np.log(np.exp(logits - centre[:, None]).sum(axis=1)) + centre
        inside = (labels >= 0) & (labels < columns)
        own = logits[np.arange(rows), np.where(inside, labels, 0)]
        return {"loss": np.where(inside, lse - own, 0.0), "lse": lse}


def gradients(logits: FloatArray, label: Array, lse: FloatArray, dloss: FloatArray) -> FloatArray:
    """Return the gradients (rows, columns) of the logits, given the gradients ``dloss`` (rows,) of the losses."""
    labels, columns = label.astype(np.int64), logits.shape[1]
    with np.errstate(all="ignore"):
        own = np.arange(columns) == labels[:, None]
        inside = (labels >= 0) & (labels < columns)
        gradient = (np.exp(logits - lse[:, None]) - own) * dloss[:, None]
        return np.where(inside[:, None], gradient, 0.0)


def edge_labels(rows: int, columns: int, first: int) -> Array:
    """Return labels (rows,) of i32 that cycle through edge cases, starting with case number ``first``."""
    edges = (0, columns, columns - 1, -1, 2**31 - 1, -(2**31))
    return np.resize(np.roll(np.array(edges, dtype=np.int64), -first), rows).astype(np.int32)


def labels_of_rows(rows: int, columns: int, seed: int) -> Array:
    """Return random labels, (rows,) of i32, a fifth of which are -100."""
    rng = np.random.default_rng((seed, 3))
    label = rng.integers(0, columns, rows)
    return np.where(rng.random(rows) < 0.2, -100, label).astype(np.int32)


@dataclass(frozen=True)
class _OfLogits(TileProblem):
    """Fields that the problems of loss and gradient share; logits are (rows, columns)."""

    size_fields: ClassVar[tuple[str, ...]] = ("rows", "columns")

    rows: int = option("rows of logits")
    columns: int = option("columns of logits: the vocabulary")
    dtype: str = option("type of logits", "bf16", choices=tuple(FLOAT_DTYPES))

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        return {"rows": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("rows", "columns")
        if self.dtype not in FLOAT_DTYPES:
            raise ValueError(f"dtype must be {', '.join(FLOAT_DTYPES)}, not {self.dtype!r}")
        if self.rows * self.columns >= 2**40:
            raise ValueError("logits are too large: keep them under 2^40 elements")

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        if len(shapes["logits"]) != 2:
            raise ValueError(f"{cls.operator} takes logits (rows, columns), not {shapes['logits']}")
        return cls(*shapes["logits"], dtype=types["logits"], **options)

    @property
    def flops(self) -> float:
        return 4.0 * self.rows * self.columns

    def extents(self) -> Mapping[str, int]:
        return {"m": self.rows, "n": self.columns}


@dataclass(frozen=True)
class CrossEntropy(_OfLogits):
    """Loss of each row of logits: ``log(sum(exp(logits))) - logits[label]``.

    Arrays: logits (rows, columns) of ``dtype``, label (rows,) of i32; loss (rows,) and lse (rows,) of f32. lse is the
    logarithm of the sum, which the backward pass needs. A label outside the columns, such as -100, gives a loss of 0.
    The tolerance is the interpreter's bound. Raises ValueError for sizes below 1 and unknown types.
    """

    operator: ClassVar[str] = "cross_entropy"
    summary: ClassVar[str] = "the cross entropy of each row of logits with its label"
    inputs: ClassVar[tuple[str, ...]] = ("logits", "label")
    outputs: ClassVar[int] = 2

    def operands(self) -> tuple[Operand, ...]:
        """Return logits and label, then loss and lse."""
        return (
            Operand("logits", "input", FLOAT_DTYPES[self.dtype], (self.rows, self.columns)),
            Operand("label", "input", I32, (self.rows,)),
            Operand("loss", "output", F32, (self.rows,)),
            Operand("lse", "output", F32, (self.rows,)),
        )

    def views(self) -> Mapping[str, str]:
        """Return the extents m (rows) and n (columns) of each operand."""
        return {"logits": "m n", "label": "m", "loss": "m", "lse": "m"}

    @staticmethod
    def compute(p: Any, o: Any, logits: Any, label: Any, loss: Any, lse: Any) -> None:
        """Write the tile program: each block has a few rows, and updates the rows' running maximum and sum."""
        m, n = logits.shape
        bm, width = p.choose(bm=(1, 2, 4), width=(512, 1024, 2048))
        (i,) = p.blocks((m,), (bm,))
        wanted = p.load(p.window(label, (i, 0), (bm, 1), column=True))
        top, total = p.state(p.full((bm, 1), -inf)), p.state(p.zeros((bm, 1)))
        own = p.state(p.zeros((bm, 1)))
        for j in p.steps(n, width):
            tile = p.load(p.window(logits, (i, j), (bm, width)), padding=-inf).cast("f32")
            peak = p.maximum(top, p.reduction("maximumf", tile, dim=1))
            centre = p.where(peak == -inf, 0.0, peak)
            fade = p.exp2((top - centre) * LOG2_E)
            total.set(total * fade + p.reduction("add", p.exp2((tile - centre) * LOG2_E), dim=1))
            hit = (p.columns(j, width) == wanted) & (p.columns(j, width) < n)
            own.set(own + p.reduction("add", p.where(hit, tile, 0.0), dim=1))
            top.set(peak)
        sums = p.log2(total) * (1.0 / LOG2_E) + p.where(top == -inf, 0.0, top)
        p.store(sums, p.window(lse, (i, 0), (bm, 1), column=True))
        counts = (p.full((bm, 1), -1, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))
        p.store(p.where(counts, sums - own, 0.0), p.window(loss, (i, 0), (bm, 1), column=True))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``losses`` in float64."""
        x = self.loaded(inputs)
        return losses(x["logits"], x["label"])

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal logits, and labels, some of them outside the columns."""
        return super().random_inputs(seed) | {"label": labels_of_rows(self.rows, self.columns, seed)}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield rows that are -infinity except at the end, and rows whose maximum changes in every tile."""
        dtype, at = self.operand("logits").dtype, np.arange(self.columns)
        last = np.where(at < self.columns - 5, -np.inf, self.loaded(inputs)["logits"])
        rows, steep = np.arange(self.rows)[:, None], min(STEEP, STEEPEST / self.columns)
        peaks = np.random.default_rng(1).integers(0, self.columns, (self.rows, 1))
        kinds = ("-infinity first", "falling", "rising", "peaks")
        for first in (0, 2):  # row r gets kind r + first, so that two rows suffice for all four kinds
            kind = (rows + first) % len(kinds)
            values = np.choose(kind, (last, -200.0 - steep * at, steep * at, -steep * np.abs(at - peaks)))
            label = edge_labels(self.rows, self.columns, first)
            label = np.where(kind[:, 0] == 0, self.columns - 1, label).astype(np.int32)
            cases = tuple(f"logits: {name}" for name in kinds[first:] + kinds[:first])
            yield StressInputs(cases, {"logits": dtype.store(values), "label": label})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few rows, and with enough columns for a few iterations."""
        width = loops.chosen["width"]
        columns = min(self.columns, loops.count * width + (self.columns % width or width))
        return replace(self, rows=cut(self.rows, loops.chosen["bm"]), columns=columns)


@dataclass(frozen=True)
class CrossEntropyBackward(_OfLogits):
    """Gradient of logits: ``(exp(logits - lse) - (column == label)) * dloss``.

    Arrays: logits and label as in ``CrossEntropy``; lse (rows,) is an output of that problem, and dloss (rows,) the
    gradient of the losses, both of f32; dlogits (rows, columns) of ``dtype``. Rows whose label is outside the columns
    are 0. The tolerance is the interpreter's bound. Raises ValueError for sizes below 1 and unknown types.
    """

    operator: ClassVar[str] = "cross_entropy_backward"
    summary: ClassVar[str] = "the gradient of logits under cross entropy"
    inputs: ClassVar[tuple[str, ...]] = ("logits", "label", "lse", "dloss")

    def operands(self) -> tuple[Operand, ...]:
        """Return logits, label, lse and dloss, then dlogits."""
        own = FLOAT_DTYPES[self.dtype]
        return (
            Operand("logits", "input", own, (self.rows, self.columns)),
            Operand("label", "input", I32, (self.rows,)),
            Operand("lse", "input", F32, (self.rows,)),
            Operand("dloss", "input", F32, (self.rows,)),
            Operand("dlogits", "output", own, (self.rows, self.columns)),
        )

    def views(self) -> Mapping[str, str]:
        """Return the extents m (rows) and n (columns) of each operand."""
        return {"logits": "m n", "label": "m", "lse": "m", "dloss": "m", "dlogits": "m n"}

    @staticmethod
    def compute(p: Any, o: Any, logits: Any, label: Any, lse: Any, dloss: Any, dlogits: Any) -> None:
        """Write the tile program: each block computes a tile of the gradient from the same tile of the logits."""
        m, n = logits.shape
        bm, width = p.choose(bm=(1, 2, 4), width=(512, 1024, 2048))
        i, j = p.blocks((m, n), (bm, width))
        wanted = p.load(p.window(label, (i, 0), (bm, 1), column=True))
        sums, scale = (p.load(p.window(array, (i, 0), (bm, 1), column=True)) for array in (lse, dloss))
        tile = p.load(p.window(logits, (i, j), (bm, width))).cast("f32")
        counts = (p.full((bm, 1), -1, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))
        own = p.where(p.columns(j, width) == wanted, 1.0, 0.0)
        result = p.where(counts, (p.exp2((tile - sums) * LOG2_E) - own) * scale, 0.0)
        p.store(result.cast(o.dtype), p.window(dlogits, (i, j), (bm, width)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``gradients`` in float64."""
        x = self.loaded(inputs)
        return {"dlogits": gradients(x["logits"], x["label"], x["lse"], x["dloss"])}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal logits with their lse, and labels, some of them outside the columns."""
        inputs = super().random_inputs(seed) | {"label": labels_of_rows(self.rows, self.columns, seed)}
        logits = FLOAT_DTYPES[self.dtype].load(inputs["logits"])
        return inputs | {"lse": losses(logits, inputs["label"])["lse"].astype(np.float32)}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield labels inside and outside of the columns, at both ends; dloss is infinite for labels outside."""
        for first in (0, 2, 4):  # so that all cases occur even with only two rows
            label = edge_labels(self.rows, self.columns, first)
            column = label.astype(np.int64)
            dloss = np.where((column >= 0) & (column < self.columns), inputs["dloss"], np.inf).astype(np.float32)
            yield StressInputs(("label: edges",), {**inputs, "label": label, "dloss": dloss})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with three tiles of rows and two of columns, so that swapped axes are detected."""
        bm = loops.chosen["bm"]
        rows, columns = min(self.rows, bm + cut(self.rows, bm)), cut(self.columns, loops.chosen["width"])
        return replace(self, rows=rows, columns=columns)
