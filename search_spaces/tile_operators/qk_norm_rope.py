"""Rotary position embedding of each head, after an optional RMS norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut


@dataclass(frozen=True)
class QkNormRope(TileProblem):
    """Rotary position embedding of each head of x, after its RMS norm.

    Arrays of ``dtype``: x and out (tokens, heads, head_size); weight (head_size,) with ``norm=1``. Others: positions
    (tokens,) of i32; table (length, head_size) of f32, for each position the cosines of head_size / 2 angles followed
    by their sines. The halves (a, b) of a head become (a cos - b sin, b cos + a sin). A position outside the table has
    cosines and sines of 0.

    The tolerance is the interpreter's bound. Raises ValueError for sizes below 1, and head sizes that are not powers of
    two from 16 to 256.
    """

    operator: ClassVar[str] = "qk_norm_rope"
    summary: ClassVar[str] = "the RMS norm of each head, and rotary positions"
    inputs: ClassVar[tuple[str, ...]] = ("x", "positions", "table")
    optional_inputs: ClassVar[tuple[str, ...]] = ("weight",)
    call_options: ClassVar[Mapping[str, Any]] = {"eps": 1e-6}
    size_fields: ClassVar[tuple[str, ...]] = ("tokens", "heads", "head_size", "length")
    scalar_fields: ClassVar[tuple[str, ...]] = ("eps",)

    tokens: int = option("rows of x")
    heads: int = option("heads of a row")
    head_size: int = option("elements of a head", 128)
    length: int = option("rows of the table", 4096)
    norm: int = option("1 for an RMS norm before the rotary positions", 1)
    dtype: str = option("type of x, weight and out", "bf16", choices=("f16", "bf16"))
    eps: float = option("added to the mean of the squares", 1e-6)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``tokens``."""
        return {"tokens": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("tokens", "heads", "head_size", "length")
        if self.dtype not in ("f16", "bf16"):
            raise ValueError(f"dtype must be f16 or bf16, not {self.dtype!r}")
        if self.head_size & (self.head_size - 1) or not 16 <= self.head_size <= 256:
            raise ValueError(f"head_size must be a power of two from 16 to 256, not {self.head_size}")
        if self.norm not in (0, 1):
            raise ValueError(f"norm must be 0 or 1, not {self.norm!r}")

    def operands(self) -> tuple[Operand, ...]:
        """Return x, positions, table and the optional weight, then out."""
        own, rows = FLOAT_DTYPES[self.dtype], (self.tokens, self.heads, self.head_size)
        return (
            Operand("x", "input", own, rows),
            Operand("positions", "input", I32, (self.tokens,)),
            Operand("table", "input", F32, (self.length, self.head_size)),
            *([Operand("weight", "input", own, (self.head_size,))] if self.norm else []),
            Operand("out", "output", own, rows),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for x and table, with the norm if there is a weight."""
        if len(shapes["x"]) != 3 or len(shapes["table"]) != 2:
            raise ValueError("qk_norm_rope takes x (tokens, heads, head_size) and table (length, head_size)")
        norm = int("weight" in shapes)
        return cls(*shapes["x"], length=shapes["table"][0], norm=norm, dtype=types["x"], **options)

    @property
    def flops(self) -> float:
        """Number of operations: about eight per element."""
        return 8.0 * self.tokens * self.heads * self.head_size

    def views(self) -> Mapping[str, str]:
        """Return the extents t (tokens), h (heads), d (head size) and length of each operand."""
        weight = {"weight": "d"} if self.norm else {}
        return {"x": "t h d", "positions": "t", "table": "length d", **weight, "out": "t h d"}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes t, h, d and length."""
        return {"t": self.tokens, "h": self.heads, "d": self.head_size, "length": self.length}

    @staticmethod
    def compute(p: Any, o: Any, x: Any, positions: Any, table: Any, out: Any, weight: Any = None) -> None:
        """Write the tile program: each block normalises and rotates a few heads of one token."""
        t, h, d = x.shape
        half, bh = d // 2, p.choose(bh=(1, 2, 4, 8))
        token, i = p.blocks((t, h), (1, bh))
        low, high = (p.load(p.window(x[token], (i, at), (bh, half))).cast("f32") for at in (0, half))
        if weight is not None:
            squares = p.reduction("add", low * low + high * high, dim=1)
            scale = p.rsqrt(squares * (1.0 / d) + o.eps)
            factors = (p.load(p.window(weight, (0, at), (1, half))).cast("f32") for at in (0, half))
            low, high = (part * scale * factor for part, factor in zip((low, high), factors, strict=True))
        row = p.load(p.window(positions, (token, 0), (1, 1), column=True), padding=-1)
        cosines, sines = (p.load(p.window(table, (row, at), (1, half))) for at in (0, half))
        p.store((low * cosines - high * sines).cast(o.dtype), p.window(out[token], (i, 0), (bh, half)))
        p.store((high * cosines + low * sines).cast(o.dtype), p.window(out[token], (i, half), (bh, half)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the rotated heads in float64."""
        x, half = self.loaded(inputs), self.head_size // 2
        with np.errstate(all="ignore"):
            rows = x["x"]
            if self.norm:
                mean = np.square(rows).mean(axis=-1, keepdims=True)
                rows = rows / np.sqrt(mean + self.eps) * x["weight"]
            at = x["positions"].astype(np.int64)
            inside = (at >= 0) & (at < self.length)
            rotations = np.where(inside[:, None], x["table"][np.where(inside, at, 0)], 0.0)[:, None]
            low, high, cosines, sines = rows[..., :half], rows[..., half:], rotations[..., :half], rotations[..., half:]
            return {"out": np.concatenate((low * cosines - high * sines, high * cosines + low * sines), axis=-1)}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield heads of zeros or tiny numbers, whose norm depends on eps."""
        x = self.loaded(inputs)["x"] * np.resize((2.0**-10, 0.0, 1.0), self.heads)[:, None]
        yield StressInputs(("tiny heads", "zero heads"), {**inputs, "x": self.operand("x").dtype.store(x)})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few heads of a few tokens."""
        return replace(
            self,
            tokens=min(self.tokens, 3),
            heads=cut(self.heads, loops.chosen["bh"]),
            length=min(self.length, 64),
        )
