"""Gradients of attention, without atomics: one launch for queries, then one for keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.attention import TYPES, Attention, PositionCut, fewer_heads
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_pipeline import ProgramStep, TilePipeline
from search_spaces.tile_operators.tile_problem import ReducedLoops

LEAST_HEAD, MOST_HEAD, HEAD_STEP = 16, 128, 16


@dataclass(frozen=True)
class AttentionBackward(TilePipeline):
    """Gradients of ``attention`` with respect to queries, keys and values.

    Arrays: q, o, do and dq (batch, heads, queries, head_size), k, v, dk and dv (batch, kv_heads, keys, head_size), all
    of ``dtype``; lse (batch, heads, queries) of f32. ``o`` and ``lse`` are the outputs of ``attention`` with
    ``log_sum_exp``, and ``do`` is the gradient of ``o``. The other arrays, options and packed shapes are those of
    ``attention``. ``lse`` already includes the sinks.

    With p = exp(scores - lse) and ds = p (do v^T - rowsum(do o)), the gradients are dv = p^T do, dq = scale ds k and
    dk = scale ds^T q. The gradients of keys and values are summed over the query heads that share them. A soft cap
    multiplies ds by the derivative of its tanh. One block computes each sum, so results are reproducible.

    The tolerance is the interpreter's bound: p and ds are rounded to ``dtype`` before they are multiplied.

    Raises ValueError for sizes below 1, head sizes that are not multiples of 16 up to 128, heads that are not a
    multiple of kv_heads, and a window without ``causal``.
    """

    operator: ClassVar[str] = "attention_backward"
    summary: ClassVar[str] = "the gradients of attention with respect to q, k and v"
    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v", "o", "lse", "do")
    optional_inputs: ClassVar[tuple[str, ...]] = ("offsets", "slopes")
    outputs: ClassVar[int] = 3
    call_options: ClassVar[Mapping[str, Any]] = {"causal": False, "window": 0, "soft_cap": 0.0, "scale": 0.0}
    size_fields: ClassVar[tuple[str, ...]] = ("batch", "heads", "kv_heads", "queries", "keys", "head_size")

    batch: int = option("sequences")
    heads: int = option("query heads")
    kv_heads: int = option("number of heads of keys and values; must divide heads")
    queries: int = option("queries per sequence; with packed=1, of all sequences together")
    keys: int = option("keys per sequence; by default the number of queries", 0)
    head_size: int = option("elements of a head", 128)
    dtype: str = option("type of all arrays except lse", "bf16", choices=TYPES)
    packed: int = option("1 for concatenated sequences of any lengths", 0)
    causal: int = option("1 to mask the keys after a query", 0)
    window: int = option("largest number of keys that a query attends to; 0 for all", 0)
    soft_cap: float = option("limit of the magnitude of scores; 0 for none", 0.0)
    scale: float = option("factor of q k^T; 0 for 1 / sqrt(head_size)", 0.0)
    alibi: int = option("1 for ALiBi: scores decrease in proportion to distance, by a slope per head", 0)

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_sizes("keys", "window", least=0)
        object.__setattr__(self, "keys", self.keys or self.queries)
        for name in ("packed", "causal", "alibi"):
            if getattr(self, name) not in (0, 1):
                raise ValueError(f"{name} must be 0 or 1, not {getattr(self, name)!r}")
            object.__setattr__(self, name, int(getattr(self, name)))
        self._take_extents("batch", "heads", "kv_heads", "queries", "keys", "head_size")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads: {self.kv_heads} does not divide {self.heads}")
        if self.head_size % HEAD_STEP or not LEAST_HEAD <= self.head_size <= MOST_HEAD:
            raise ValueError(
                f"head_size must be a multiple of {HEAD_STEP} from {LEAST_HEAD} to {MOST_HEAD}, not {self.head_size}"
            )
        if self.packed and self.keys != self.queries:
            raise ValueError(f"keys must equal queries if sequences are packed, not {self.keys}")
        if self.window and not self.causal:
            raise ValueError("window needs causal attention: also set causal")
        if not self.soft_cap >= 0.0:
            raise ValueError(f"soft_cap must be at least 0, not {self.soft_cap}")

    @property
    def group(self) -> int:
        """Number of query heads that share one head of keys and values."""
        return self.heads // self.kv_heads

    @property
    def forward(self) -> Attention:
        """The forward problem: attention, whose gradients this problem computes."""
        return Attention(
            batch=self.batch, heads=self.heads, kv_heads=self.kv_heads, queries=self.queries, keys=self.keys,
            head_size=self.head_size, dtype=self.dtype, packed=self.packed, causal=self.causal, window=self.window,
            soft_cap=self.soft_cap, scale=self.scale, alibi=self.alibi, log_sum_exp=1,
        )  # fmt: skip

    def operands(self) -> tuple[Operand, ...]:
        """Return q, k, v, o, lse, do and the optional offsets and slopes, then dq, dk, dv and the workspace."""
        own = FLOAT_DTYPES[self.dtype]
        of_queries: tuple[int, ...] = (self.batch, self.heads, self.queries, self.head_size)
        of_keys: tuple[int, ...] = (self.batch, self.kv_heads, self.keys, self.head_size)
        of_sums = of_queries[:3]
        if self.packed:
            of_queries, of_keys = (self.queries, self.heads, self.head_size), (self.keys, self.kv_heads, self.head_size)
            of_sums = (self.heads, self.queries)
        return (
            Operand("q", "input", own, of_queries),
            Operand("k", "input", own, of_keys),
            Operand("v", "input", own, of_keys),
            Operand("o", "input", own, of_queries),
            Operand("lse", "input", F32, of_sums),
            Operand("do", "input", own, of_queries),
            *([Operand("offsets", "input", I32, (self.batch + 1,))] if self.packed else []),
            *([Operand("slopes", "input", F32, (self.heads,))] if self.alibi else []),
            Operand("dq", "output", own, of_queries),
            Operand("dk", "output", own, of_keys),
            Operand("dv", "output", own, of_keys),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for q and k, packed if there are offsets."""
        packed = "offsets" in shapes
        if any(len(shapes[name]) != (3 if packed else 4) for name in ("q", "k")):
            raise ValueError(
                "attention_backward takes q and k (batch, heads, positions, size), or with offsets (total, heads, "
                f"size), not {shapes['q']} and {shapes['k']}"
            )
        if packed:
            batch, (queries, heads, size), (keys, kv_heads) = shapes["offsets"][0] - 1, shapes["q"], shapes["k"][:2]
        else:
            (batch, heads, queries, size), (kv_heads, keys) = shapes["q"], shapes["k"][1:3]
        return cls(
            batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, head_size=size, dtype=types["q"],
            packed=int(packed), alibi=int("slopes" in shapes),
            **{**options, "causal": int(options.get("causal", False))},
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """Number of operations of the five matrix products, for all unmasked pairs of query and key."""
        return self.forward.flops * 5 / 2

    def extents(self) -> Mapping[str, int]:
        """Return the sizes b, h, g, s, t and d, and the row widths of packed arrays."""
        return {
            "b": self.batch, "h": self.heads, "g": self.kv_heads, "s": self.queries, "t": self.keys,
            "d": self.head_size, "ends": self.batch + 1, "wide_q": self.heads * self.head_size,
            "wide_k": self.kv_heads * self.head_size,
        }  # fmt: skip

    def options(self) -> Mapping[str, Any]:
        """Return the options. For packed arrays, add the sizes that do not follow from the arrays' shapes."""
        sizes = {"d": self.head_size, "h": self.heads, "g": self.kv_heads, "b": self.batch}
        return {**super().options(), "sizes": tuple(sizes.items()) if self.packed else ()}

    def steps(self) -> tuple[ProgramStep, ...]:
        """Return two steps: the first computes dq and ``delta`` (sums of ``do * o`` per head), the second dk and dv."""
        queries, keys, sums = ("s wide_q", "s wide_k", "h s") if self.packed else ("b h s d", "b g t d", "b h s")
        views = {
            "q": queries, "k": keys, "v": keys, "o": queries, "lse": sums, "do": queries, "dq": queries,
            "delta": sums, "dk": keys, "dv": keys, "offsets": "ends", "slopes": "h",
        }  # fmt: skip
        own = {o.name: o for o in self.operands()}
        delta = Operand("delta", "output", F32, own["lse"].shape)
        more = tuple(own[n] for n in self.optional_inputs if n in own)
        first = (*(own[n] for n in self.inputs), *more, own["dq"], delta)
        read = (*(own[n] for n in ("q", "k", "v", "lse", "do")), replace(delta, role="input"), *more)
        second = (*read, own["dk"], own["dv"])
        return (
            ProgramStep("queries", _of_queries, first, {o.name: views[o.name] for o in first}),
            ProgramStep("keys", _of_keys, second, {o.name: views[o.name] for o in second}),
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return dq, dk and dv in float64, by the formulas of the class."""
        x = self.loaded(inputs)
        gradients = {o.name: np.zeros(o.shape) for o in self.operands() if o.role == "output"}
        scale = self.scale or self.head_size**-0.5
        ends = x["offsets"].astype(np.int64) if self.packed else None
        with np.errstate(all="ignore"):
            for b in range(self.batch):
                for h in range(self.heads):
                    g, sums = h // self.group, (b, h)
                    at, own = (b, h), (b, g)
                    if ends is not None:
                        part = slice(int(ends[b]), int(ends[b + 1]))
                        at, own, sums = (part, h), (part, g), (h, part)  # type: ignore[assignment]
                    q, k, v, o, do = x["q"][at], x["k"][own], x["v"][own], x["o"][at], x["do"][at]
                    z, bend = self._scores(q @ k.T * scale, x["slopes"][h] if self.alibi else 0.0)
                    weights = np.where(self._seen(len(q), len(k)), np.exp(z - x["lse"][sums][:, None]), 0.0)
                    slope = weights * (do @ v.T - (do * o).sum(axis=1, keepdims=True)) * bend
                    gradients["dq"][at] = slope @ k * scale
                    gradients["dk"][own] += slope.T @ q * scale
                    gradients["dv"][own] += weights.T @ do
        return gradients

    def _seen(self, queries: int, keys: int) -> BoolArray:
        """Return the mask (queries, keys) of one sequence, which is true where a query attends to a key."""
        rows, columns = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
        seen = np.full((queries, keys), True)
        if self.causal:
            seen &= columns <= rows
        if self.window:
            seen &= columns > rows - self.window
        return seen

    def _scores(self, z: FloatArray, slope: float) -> tuple[FloatArray, FloatArray | float]:
        """Return the scores with bias and soft cap applied, and the derivative of the soft cap."""
        bend: FloatArray | float = 1.0
        if self.soft_cap:
            share = np.tanh(z / self.soft_cap)
            z, bend = share * self.soft_cap, 1.0 - np.square(share)
        if slope:
            rows, columns = np.arange(z.shape[0])[:, None] + z.shape[1] - z.shape[0], np.arange(z.shape[1])
            z = z + slope * (columns - rows)
        return z, bend

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, with ``o`` and ``lse`` computed by attention."""
        return self._with_results({**super().random_inputs(seed), **self.forward.random_inputs(seed)})

    def _with_results(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs with ``o`` and ``lse`` recomputed from q, k and v."""
        forward = self.forward.reference(inputs)
        results = {"o": forward["out"], "lse": forward["lse"]}
        with np.errstate(all="ignore"):  # edge cases may overflow the arrays' type
            return {**inputs, **{name: self.operand(name).dtype.store(x) for name, x in results.items()}}

    def edge_cases(self, inputs: Mapping[str, Array], seed: int) -> Iterator[StressInputs]:
        """Yield the edge cases of attention, with the matching o and lse, then the edge cases of ``do``."""
        for case in self.forward.stress_inputs(seed):
            yield StressInputs(case.cases, self._with_results({**inputs, **case.inputs}))
        yield from super().edge_cases(inputs, seed)

    @property
    def varied(self) -> tuple[str, ...]:
        """Only ``do`` gets edge cases of the program; q, k and v get the edge cases of attention."""
        return ("do",)

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with two sequences, two groups of two heads, and a few tiles of queries and keys."""
        of_queries, of_keys = (
            max(loops.chosen["bm"], loops.chosen["bs"]),
            max(loops.chosen["bn"], loops.chosen["bt"]),
        )
        least = loops.count * loops.chosen["bs"], loops.count * loops.chosen["bn"]
        tied = bool(self.causal or self.alibi or self.packed)
        extents = PositionCut((of_queries, of_keys), least, tied, 2 if self.packed else 1).of(self)
        return replace(self, **extents, **fewer_heads(self.batch, self.kv_heads, self.group))


@dataclass(frozen=True)
class _Sequence:
    """Rows of the sequence to which a block's tile belongs, for packed and other sequences.

    Attributes:
        begin: Row of the sequence's first query and key.
        at: Row of the block's first query or key.
        last: Row that follows the sequence's last key.
        offset: Number of keys before the position of the first query.
        packed: True if lengths are known only on the device.
    """

    begin: Any
    at: Any
    last: Any
    offset: int
    packed: bool

    @property
    def below(self) -> dict[str, Any]:
        """Keyword arguments of ``p.store`` that keep a block from storing beyond its sequence."""
        return {"rows_below": self.last} if self.packed else {}


def _sequence(p: Any, o: Any, sequence: Any, tile: Any, queries: int, keys: int, more: Mapping[str, Any]) -> _Sequence:
    if not o.packed:
        return _Sequence(0, tile, keys, keys - queries, False)
    begin, end = (p.load_scalar(more["offsets"], sequence + at, high=queries, ordered=True) for at in (0, 1))
    return _Sequence(begin, p.minimum(begin + tile, queries), end, 0, True)


def _sizes(o: Any, q: Any, k: Any) -> tuple[int, int, int, int, int, int]:
    """Return the sizes b, h, g, s, t and d."""
    if o.packed:
        sizes = dict(o.sizes)
        return sizes["b"], sizes["h"], sizes["g"], q.shape[0], k.shape[0], sizes["d"]
    (b, h, s, d), (_, g, t, _) = q.shape, k.shape
    return b, h, g, s, t, d


def _of_head(o: Any, array: Any, sequence: Any, head: Any, row: Any, d: int) -> tuple[Any, tuple[Any, Any]]:
    """Return an array and the position in it where row ``row`` of a head begins."""
    return (array, (row, head * d)) if o.packed else (array[sequence][head], (row, 0))


def _exponents(p: Any, o: Any, scores: Any, d: int, distance: Any, slope: Any) -> tuple[Any, Any]:
    """Return the exponents of the scores for exp2, and the derivative of the soft cap (None without a cap)."""
    scale, bend = o.scale or d**-0.5, None
    if slope is None and not o.soft_cap:
        return scores * (scale * LOG2_E), None
    z = scores * scale
    if o.soft_cap:
        share = p.tanh(scores * (scale / o.soft_cap))
        z, bend = share * o.soft_cap, 1.0 - share * share
    if slope is not None:
        z = z + distance.cast("f32") * slope
    return z * LOG2_E, bend


def _of_queries(p: Any, options: Any, /, **arrays: Any) -> None:
    """Write the tile program for dq and delta: each block has one tile of queries, and loops over keys."""
    q, k, v, o, lse, do, dq, delta = (arrays[n] for n in ("q", "k", "v", "o", "lse", "do", "dq", "delta"))
    b, h, g, s, t, d = _sizes(options, q, k)
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64, 128))
    sequence, head, tile = p.blocks((b, h, s), (1, 1, bm))
    span = _sequence(p, options, sequence, tile, s, t, arrays)
    group, i, offset = head // (h // g), span.at, span.offset

    def of_queries(x: Any) -> Any:
        return p.window(*_of_head(options, x, sequence, head, i, d), (bm, d))

    query, gradient, result = (p.load(of_queries(x)) for x in (q, do, o))
    of_sequence, of_delta = (lse, delta) if options.packed else (lse[sequence], delta[sequence])
    sums = p.load(p.window(of_sequence, (i, head), (bm, 1), turned=True), padding=inf) * LOG2_E
    of_result = p.reduction("add", gradient.cast("f32") * result.cast("f32"), dim=1)
    p.store(of_result, p.window(of_delta, (i, head), (bm, 1), turned=True), **span.below)
    slopes = p.load(p.window(arrays["slopes"], (0, head), (1, 1))) if options.alibi else None
    acc = p.state(p.zeros((bm, d)))
    stop = p.minimum(span.last, i + (bm + offset)) if options.causal else span.last
    if options.packed:  # blocks beyond the end of their sequence run no iterations
        stop = p.minimum(stop, span.begin + p.minimum(p.maximum(span.last - i, 0), 1) * s)
    first = p.maximum(i + (offset - options.window + 1), 0) // bn * bn if options.window else span.begin
    if options.packed and options.window:
        first = p.maximum(span.begin, first)
    for j in p.steps(stop, bn, first=first):
        keys, values = (p.load(p.window(*_of_head(options, x, sequence, group, j, d), (bn, d))) for x in (k, v))
        rows, columns = p.rows(i + offset, bm), p.columns(j, bn)
        seen = columns < (p.columns(span.last, 1) if options.packed else t)
        if options.causal:
            seen = seen & (columns <= rows)
        if options.window:
            seen = seen & (columns > p.rows(i + (offset - options.window), bm))
        scores, change = p.mma(query, p.transpose(keys)), p.mma(gradient, p.transpose(values))
        raised, bend = _exponents(p, options, scores, d, columns - rows, slopes)
        e = p.where(seen, p.exp2(raised - sums), 0.0)
        slope = e * (change - of_result) if bend is None else e * (change - of_result) * bend
        acc.set(p.mma(slope.cast(options.dtype), keys, acc))
    p.store((acc * (options.scale or d**-0.5)).cast(options.dtype), of_queries(dq), **span.below)


def _of_keys(p: Any, options: Any, /, **arrays: Any) -> None:
    """Write the tile program for dk and dv: a block has a tile of keys, and iterates over the queries of a group.

    Scores are transposed (a row per key): sums over queries are then products with scores as left operand.
    """
    q, k, v, lse, do, delta, dk, dv = (arrays[n] for n in ("q", "k", "v", "lse", "do", "delta", "dk", "dv"))
    b, h, g, s, t, d = _sizes(options, q, k)
    group, scale = h // g, options.scale or d**-0.5
    bt, bs = p.choose(bt=(64, 128), bs=(32, 64, 128))
    sequence, kv_head, tile = p.blocks((b, g, t), (1, 1, bt))
    span = _sequence(p, options, sequence, tile, s, t, arrays)
    begin, j, last, offset = span.begin, span.at, span.last, span.offset

    def of_keys(x: Any) -> Any:
        return p.window(*_of_head(options, x, sequence, kv_head, j, d), (bt, d))

    keys, values = (p.load(of_keys(x)) for x in (k, v))
    sum_of_keys, sum_of_values = p.state(p.zeros((bt, d))), p.state(p.zeros((bt, d)))
    first = p.maximum(j - begin - offset, 0) // bs if options.causal else 0
    stop = (p.maximum(last - begin, 0) + (bs - 1)) // bs if options.packed else -(-s // bs)
    if options.window:
        stop = p.minimum(stop, p.maximum(j - begin + (bt + options.window + bs - 2 - offset), 0) // bs)
    if options.packed:  # blocks beyond the end of their sequence run no iterations
        stop = p.minimum(stop, p.minimum(p.maximum(last - j, 0), 1) * -(-s // bs))
    for iteration in p.steps(stop * group, 1, first=first * group):
        head, i = kv_head * group + iteration % group, begin + iteration // group * bs
        query, gradient = (p.load(p.window(*_of_head(options, x, sequence, head, i, d), (bs, d))) for x in (q, do))
        of_sequence, of_delta = (lse, delta) if options.packed else (lse[sequence], delta[sequence])
        sums = p.load(p.window(of_sequence, (head, i), (1, bs)), padding=inf) * LOG2_E
        of_result = p.load(p.window(of_delta, (head, i), (1, bs)))
        scores, change = p.mma(keys, p.transpose(query)), p.mma(values, p.transpose(gradient))
        slopes = p.load(p.window(arrays["slopes"], (0, head), (1, 1))) if options.alibi else None
        raised, bend = _exponents(p, options, scores, d, p.rows(j, bt) - p.columns(i + offset, bs), slopes)
        e, seen = p.exp2(raised - sums), None
        if options.packed:
            seen = p.columns(i, bs) < p.rows(last, 1)
        if options.causal:
            before = p.rows(j, bt) <= p.columns(i + offset, bs)
            seen = before if seen is None else seen & before
            if options.window:
                seen = seen & (p.rows(j + options.window, bt) > p.columns(i + offset, bs))
        if seen is not None:
            e = p.where(seen, e, 0.0)
        slope = e * (change - of_result) if bend is None else e * (change - of_result) * bend
        sum_of_values.set(p.mma(e.cast(options.dtype), gradient, sum_of_values))
        sum_of_keys.set(p.mma(slope.cast(options.dtype), query, sum_of_keys))
    for x, to in ((sum_of_keys * scale, dk), (sum_of_values, dv)):
        p.store(x.cast(options.dtype), of_keys(to), **span.below)
