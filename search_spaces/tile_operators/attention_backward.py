"""The gradients of attention: of queries, then of keys and values, without atomics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.attention import TYPES, Attention
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_pipeline import ProgramStep, TilePipeline
from search_spaces.tile_operators.tile_problem import ReducedLoops

LEAST_HEAD, MOST_HEAD, HEAD_STEP = 16, 128, 16


@dataclass(frozen=True)
class AttentionBackward(TilePipeline):
    """Gradients of ``attention`` by its queries, keys and values.

    Arrays: q, o, do and dq (batch, heads, queries, head_size), k, v, dk and dv (batch, kv_heads, keys, head_size), all
    of ``dtype``; lse (batch, heads, queries) of f32. ``o`` and ``lse`` are the outputs of ``attention`` with
    ``log_sum_exp``, and ``do`` is the gradient of ``o``. The other options are those of ``attention``.

    With p = exp(scores - lse) and ds = p (do v^T - rowsum(do o)), the gradients are dv = p^T do, dq = scale ds k and
    dk = scale ds^T q; those of keys and values add up the query heads that share them. Each sum is added up by one
    block, so that results are the same in every run.

    The tolerance is the interpreter's bound: p and ds are rounded to ``dtype`` before they are multiplied.

    Raises ValueError for sizes below 1, head sizes that are no multiples of 16 up to 128, heads that kv_heads does not
    divide, and a window without ``causal``.
    """

    operator: ClassVar[str] = "attention_backward"
    summary: ClassVar[str] = "the gradients of attention by q, k and v"
    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v", "o", "lse", "do")
    outputs: ClassVar[int] = 3
    call_options: ClassVar[Mapping[str, Any]] = {"causal": False, "window": 0, "scale": 0.0}
    size_fields: ClassVar[tuple[str, ...]] = ("batch", "heads", "kv_heads", "queries", "keys", "head_size")

    batch: int = option("sequences")
    heads: int = option("query heads")
    kv_heads: int = option("heads of keys and values, which divide heads")
    queries: int = option("queries of a sequence")
    keys: int = option("keys of a sequence; by default as many as queries", 0)
    head_size: int = option("elements of a head", 128)
    dtype: str = option("type of all arrays but lse", "bf16", choices=TYPES)
    causal: int = option("1 to mask the keys behind a query", 0)
    window: int = option("keys that a query sees at most; 0 for all", 0)
    scale: float = option("factor of q k^T; 0 for 1 / sqrt(head_size)", 0.0)

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_sizes("keys", "window", least=0)
        object.__setattr__(self, "keys", self.keys or self.queries)
        if self.causal not in (0, 1):
            raise ValueError(f"causal must be 0 or 1, not {self.causal!r}")
        object.__setattr__(self, "causal", int(self.causal))
        self._take_extents("batch", "heads", "kv_heads", "queries", "keys", "head_size")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads: {self.kv_heads} does not divide {self.heads}")
        if self.head_size % HEAD_STEP or not LEAST_HEAD <= self.head_size <= MOST_HEAD:
            raise ValueError(
                f"head_size must be a multiple of {HEAD_STEP} from {LEAST_HEAD} to {MOST_HEAD}, not {self.head_size}"
            )
        if self.window and not self.causal:
            raise ValueError("a window is of causal attention: set causal, too")

    @property
    def group(self) -> int:
        """Query heads that share keys and values."""
        return self.heads // self.kv_heads

    @property
    def forward(self) -> Attention:
        """The problem whose gradients these are."""
        return Attention(
            batch=self.batch, heads=self.heads, kv_heads=self.kv_heads, queries=self.queries, keys=self.keys,
            head_size=self.head_size, dtype=self.dtype, causal=self.causal, window=self.window, scale=self.scale,
            log_sum_exp=1,
        )  # fmt: skip

    def operands(self) -> tuple[Operand, ...]:
        own = FLOAT_DTYPES[self.dtype]
        of_queries = (self.batch, self.heads, self.queries, self.head_size)
        of_keys = (self.batch, self.kv_heads, self.keys, self.head_size)
        return (
            Operand("q", "input", own, of_queries),
            Operand("k", "input", own, of_keys),
            Operand("v", "input", own, of_keys),
            Operand("o", "input", own, of_queries),
            Operand("lse", "input", F32, of_queries[:3]),
            Operand("do", "input", own, of_queries),
            Operand("dq", "output", own, of_queries),
            Operand("dk", "output", own, of_keys),
            Operand("dv", "output", own, of_keys),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        if any(len(shapes[name]) != 4 for name in ("q", "k")):
            raise ValueError(
                f"attention_backward takes q and k (batch, heads, positions, size), not {shapes['q']} and {shapes['k']}"
            )
        (batch, heads, queries, size), (kv_heads, keys) = shapes["q"], shapes["k"][1:3]
        return cls(
            batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, head_size=size, dtype=types["q"],
            **{**options, "causal": int(options.get("causal", False))},
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """Operations of the five products of all unmasked pairs."""
        return self.forward.flops * 5 / 2

    def extents(self) -> Mapping[str, int]:
        return {
            "b": self.batch, "h": self.heads, "g": self.kv_heads, "s": self.queries, "t": self.keys,
            "d": self.head_size,
        }  # fmt: skip

    def steps(self) -> tuple[ProgramStep, ...]:
        """Gradients of queries with ``delta``, the sums of do o along a head; then those of keys and values."""
        queries, keys = "b h s d", "b g t d"
        views = {
            "q": queries, "k": keys, "v": keys, "o": queries, "lse": "b h s", "do": queries, "dq": queries,
            "delta": "b h s", "dk": keys, "dv": keys,
        }  # fmt: skip
        own = {o.name: o for o in self.operands()}
        delta = Operand("delta", "output", F32, own["lse"].shape)
        first = (*(own[n] for n in self.inputs), own["dq"], delta)
        second = (*(own[n] for n in ("q", "k", "v", "lse", "do")), replace(delta, role="input"), own["dk"], own["dv"])
        return (
            ProgramStep("queries", _of_queries, first, {o.name: views[o.name] for o in first}),
            ProgramStep("keys", _of_keys, second, {o.name: views[o.name] for o in second}),
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        x = self.loaded(inputs)
        found = {o.name: np.zeros(o.shape) for o in self.operands() if o.role == "output"}
        scale = self.scale or self.head_size**-0.5
        rows, columns = np.arange(self.queries)[:, None] + self.keys - self.queries, np.arange(self.keys)
        seen = np.full((self.queries, self.keys), True)
        if self.causal:
            seen &= columns <= rows
        if self.window:
            seen &= columns > rows - self.window
        with np.errstate(all="ignore"):
            for b in range(self.batch):
                for h in range(self.heads):
                    at, own = (b, h), (b, h // self.group)
                    q, k, v, o, do = x["q"][at], x["k"][own], x["v"][own], x["o"][at], x["do"][at]
                    weights = np.where(seen, np.exp(q @ k.T * scale - x["lse"][at][:, None]), 0.0)
                    slope = weights * (do @ v.T - (do * o).sum(axis=1, keepdims=True))
                    found["dq"][at] = slope @ k * scale
                    found["dk"][own] += slope.T @ q * scale
                    found["dv"][own] += weights.T @ do
        return found

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return normal numbers, and of ``o`` and ``lse`` what attention gives for them."""
        return self._with_results(super().random_inputs(seed))

    def _with_results(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs with ``o`` and ``lse`` of their queries, keys and values."""
        found = self.forward.reference(inputs)
        results = {"o": found["out"], "lse": found["lse"]}
        with np.errstate(all="ignore"):  # edge cases leave the range of their type
            return {**inputs, **{name: self.operand(name).dtype.store(x) for name, x in results.items()}}

    def edge_cases(self, inputs: Mapping[str, Array], seed: int) -> Iterator[StressInputs]:
        """Yield the edge cases of attention, with what it gives for them, and those of ``do``."""
        for case in self.forward.stress_inputs(seed):
            yield StressInputs(case.cases, self._with_results({**inputs, **case.inputs}))
        yield from super().edge_cases(inputs, seed)

    @property
    def varied(self) -> tuple[str, ...]:
        return ("do",)

    def reduced(self, turns: ReducedLoops) -> Self:
        """Return one with two sequences, heads of one group, a few tiles of queries and keys."""
        of_queries, of_keys = max(turns.chosen["bm"], turns.chosen["bs"]), max(turns.chosen["bn"], turns.chosen["bt"])
        batch, kv_heads = min(self.batch, 2), 1
        keys = min(self.keys, turns.count * turns.chosen["bn"] + (self.keys % of_keys or of_keys))
        queries = min(self.queries, turns.count * turns.chosen["bs"] + (self.queries % of_queries or of_queries))
        if self.keys == self.queries:  # the last query stands at the last key
            keys = queries = max(keys, queries)
        return replace(
            self, batch=batch, kv_heads=kv_heads, heads=kv_heads * min(self.group, 2), queries=queries, keys=keys
        )


def _of_queries(p: Any, options: Any, /, **arrays: Any) -> None:
    """Write the program of dq and delta: a block has a tile of queries, and walks over keys."""
    q, k, v, o, lse, do, dq, delta = (arrays[n] for n in ("q", "k", "v", "o", "lse", "do", "dq", "delta"))
    (b, h, s, d), (_, g, t, _) = q.shape, k.shape
    behind, scale = t - s, options.scale or d**-0.5
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64, 128))
    sequence, head, i = p.blocks((b, h, s), (1, 1, bm))
    group = head // (h // g)
    query, gradient, result = (p.load(p.window(x[sequence][head], (i, 0), (bm, d))) for x in (q, do, o))
    sums = p.load(p.window(lse[sequence], (i, head), (bm, 1), turned=True), padding=inf) * LOG2_E
    of_result = p.reduction("add", gradient.cast("f32") * result.cast("f32"), dim=1)
    p.store(of_result, p.window(delta[sequence], (i, head), (bm, 1), turned=True))
    acc = p.state(p.zeros((bm, d)))
    stop = p.minimum(t, i + (bm + behind)) if options.causal else t
    first = p.maximum(i + (behind - options.window + 1), 0) // bn * bn if options.window else 0
    for j in p.steps(stop, bn, first=first):
        keys, values = (p.load(p.window(x[sequence][group], (j, 0), (bn, d))) for x in (k, v))
        rows, columns = p.rows(i + behind, bm), p.columns(j, bn)
        seen = columns < t
        if options.causal:
            seen = seen & (columns <= rows)
        if options.window:
            seen = seen & (columns > p.rows(i + (behind - options.window), bm))
        scores, change = p.mma(query, p.transpose(keys)), p.mma(gradient, p.transpose(values))
        e = p.where(seen, p.exp2(scores * (scale * LOG2_E) - sums), 0.0)
        slope = e * (change - of_result)
        acc.set(p.mma(slope.cast(options.dtype), keys, acc))
    p.store((acc * scale).cast(options.dtype), p.window(dq[sequence][head], (i, 0), (bm, d)))


def _of_keys(p: Any, options: Any, /, **arrays: Any) -> None:
    """Write the program of dk and dv: a block has a tile of keys, and walks over the queries of all heads of a group.

    Scores have a row for each key, so that sums over queries are products of what lies in registers.
    """
    q, k, v, lse, do, delta, dk, dv = (arrays[n] for n in ("q", "k", "v", "lse", "do", "delta", "dk", "dv"))
    (b, h, s, d), (_, g, t, _) = q.shape, k.shape
    group, behind, scale = h // g, t - s, options.scale or d**-0.5
    bt, bs = p.choose(bt=(64, 128), bs=(32, 64, 128))
    sequence, kv_head, j = p.blocks((b, g, t), (1, 1, bt))
    keys, values = (p.load(p.window(x[sequence][kv_head], (j, 0), (bt, d))) for x in (k, v))
    of_keys, of_values = p.state(p.zeros((bt, d))), p.state(p.zeros((bt, d)))
    first = p.maximum(j - behind, 0) // bs if options.causal else 0
    stop = -(-s // bs)
    if options.window:
        stop = p.minimum(stop, p.maximum(j + (bt + options.window + bs - 2 - behind), 0) // bs)
    for turn in p.steps(stop * group, 1, first=first * group):
        head, i = kv_head * group + turn % group, turn // group * bs
        query, gradient = (p.load(p.window(x[sequence][head], (i, 0), (bs, d))) for x in (q, do))
        sums = p.load(p.window(lse[sequence], (head, i), (1, bs)), padding=inf) * LOG2_E
        of_result = p.load(p.window(delta[sequence], (head, i), (1, bs)))
        scores, change = p.mma(keys, p.transpose(query)), p.mma(values, p.transpose(gradient))
        e = p.exp2(scores * (scale * LOG2_E) - sums)
        if options.causal:
            seen = p.rows(j, bt) <= p.columns(i + behind, bs)
            if options.window:
                seen = seen & (p.rows(j + options.window, bt) > p.columns(i + behind, bs))
            e = p.where(seen, e, 0.0)
        slope = e * (change - of_result)
        of_values.set(p.mma(e.cast(options.dtype), gradient, of_values))
        of_keys.set(p.mma(slope.cast(options.dtype), query, of_keys))
    for x, to in ((of_keys * scale, dk), (of_values, dv)):
        p.store(x.cast(options.dtype), p.window(to[sequence][kv_head], (j, 0), (bt, d)))
