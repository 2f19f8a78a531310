"""Attention of one to eight new positions per sequence over a paged cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import E4M3, F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.softmax_rows import exponents
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem

TYPES = ("f16", "bf16")
CACHES = ("", "e4m3")
SCALES = ("k_scale", "v_scale")
ORDERS = ("positions", "heads")  # values of ``order``: the outer dimension of a page
MOST_QUERIES = 8
LEAST_COLUMNS = 8  # number of columns (n) of mma.sync
MOST_COLUMNS = 64  # largest number of query heads of one tile
WHOLE_PAGES = 32  # smallest page size for which a tile of keys lies inside one page; smaller pages are gathered
MOST_TILE = 128  # largest number of keys of one tile


@dataclass(frozen=True)
class DecodeAttention(TileProblem):
    """``softmax(scale q k^T) v`` of the last ``queries`` positions of each sequence, over its keys in a paged cache.

    - q (batch, queries, heads, head_size): ``heads / kv_heads`` query heads share one head of keys and values.
    - out: the result, of the shape of q.
    - k and v: (pages, page, kv_heads, head_size), or with ``order="heads"`` (pages, kv_heads, page, head_size).
    - table (batch, entries) of i32: the pages of each sequence in order.
    - lengths (batch,) of i32: the number of keys of each sequence, including the new positions.

    Query i of a sequence attends to keys up to its position, ``lengths - queries + i``. Without keys, the result is 0.
    With ``cache="e4m3"``, keys and values are multiplied by k_scale and v_scale (kv_heads,) of f32.

    The tolerance is the interpreter's bound: weights are rounded to q's type before they multiply values, and sums may
    be in any order. Positions of a page after the length are read with weight 0, so they must contain finite numbers.

    Raises ValueError for sizes below 1, more than 8 queries, a page that is not a power of two from 16 to 1024, a head
    size that is not a multiple of 16 from 16 to 256, heads that are not a multiple of kv_heads, a cache of 2^40
    elements or more, and (pages + 1) x page x kv_heads of 2^31 or more.
    """

    operator: ClassVar[str] = "decode_attention"
    summary: ClassVar[str] = "attention of the newest positions over a paged cache of keys and values"
    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v", "table", "lengths")
    optional_inputs: ClassVar[tuple[str, ...]] = SCALES
    call_options: ClassVar[Mapping[str, Any]] = {"scale": 0.0, "order": "positions"}
    size_fields: ClassVar[tuple[str, ...]] = ("batch", "entries", "pages", "kv_heads", "heads")

    batch: int = option("sequences")
    heads: int = option("query heads")
    kv_heads: int = option("number of heads of keys and values; must divide heads")
    entries: int = option("pages of the longest sequence: columns of the block table")
    head_size: int = option("elements of a head", 128)
    page: int = option("positions of a page", 16)
    pages: int = option("pages of the cache; by default batch x entries", 0)
    queries: int = option("new positions of each sequence", 1)
    dtype: str = option("type of q and out", "f16", choices=TYPES)
    cache: str = option("type of keys and values; by default the type of q", "", choices=CACHES[1:])
    order: str = option("outer dimension of a page", "positions", flag="--page-order", choices=ORDERS)
    scale: float = option("factor of q k^T; 0 for 1 / sqrt(head_size)", 0.0)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``batch``."""
        return {"batch": 64}

    def __post_init__(self) -> None:
        self._take_types("dtype", "cache")
        self._take_extents("batch", "heads", "kv_heads", "head_size", "entries", "page", "queries")
        self._take_sizes("pages", least=0)
        object.__setattr__(self, "pages", self.pages or self.batch * self.entries)
        if self.cache == self.dtype:
            object.__setattr__(self, "cache", "")
        for name, value, known in (
            ("dtype", self.dtype, TYPES), ("cache", self.cache, CACHES), ("order", self.order, ORDERS)
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"{name} must be {' or '.join(filter(None, known))}, not {value!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads: {self.kv_heads} does not divide {self.heads}")
        if self.page & (self.page - 1) or not 16 <= self.page <= 1024:
            raise ValueError(f"page must be a power of two from 16 to 1024, not {self.page}")
        if self.head_size % 16 or self.head_size > 256:
            raise ValueError(f"head_size must be a multiple of 16 up to 256, not {self.head_size}")
        if self.queries > MOST_QUERIES:
            raise ValueError(f"queries must be at most {MOST_QUERIES}, not {self.queries}: use attention for more")
        if self.pages * self.page * self.kv_heads * self.head_size >= 2**40:
            raise ValueError("the cache is too large: keep it under 2^40 elements")
        if (self.pages + 1) * self.page * self.kv_heads >= 2**31:
            raise ValueError("the cache is too large: keep (pages + 1) x page x kv_heads under 2^31")

    @property
    def group(self) -> int:
        """Number of query heads that share one head of keys and values."""
        return self.heads // self.kv_heads

    def operands(self) -> tuple[Operand, ...]:
        """Return q, k, v, table, lengths and the optional scales, then out."""
        own, cached = FLOAT_DTYPES[self.dtype], E4M3 if self.cache else FLOAT_DTYPES[self.dtype]
        rows = (self.batch, self.queries, self.heads, self.head_size)
        within = (self.page, self.kv_heads) if self.order == "positions" else (self.kv_heads, self.page)
        scales = [Operand(name, "input", F32, (self.kv_heads,)) for name in self.optional_inputs if self.cache]
        return (
            Operand("q", "input", own, rows),
            *(Operand(name, "input", cached, (self.pages, *within, self.head_size)) for name in ("k", "v")),
            Operand("table", "input", I32, (self.batch, self.entries)),
            Operand("lengths", "input", I32, (self.batch,)),
            *scales,
            Operand("out", "output", own, rows),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for q, k and table. A cache of e4m3 needs both scales."""
        q, k, table = (shapes[name] for name in ("q", "k", "table"))
        if (len(q), len(k), len(table)) != (4, 4, 2):
            raise ValueError(
                "decode_attention takes q (batch, queries, heads, head_size), k and v of 4 dimensions, and table "
                f"(batch, entries), not {q}, {k} and {table}"
            )
        page, kv_heads = (k[1], k[2]) if options.get("order", "positions") == "positions" else (k[2], k[1])
        cache = "e4m3" if types["k"] == "e4m3" else ""
        if bool(cache) != ("k_scale" in shapes and "v_scale" in shapes):
            raise ValueError("give k_scale and v_scale for a cache of e4m3, and only for such a cache")
        return cls(
            batch=q[0], queries=q[1], heads=q[2], head_size=q[3], kv_heads=kv_heads, page=page, pages=k[0],
            entries=table[1], dtype=types["q"], cache=cache, **options,
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """Number of operations of both matrix products, if every sequence fills all of its pages."""
        return 4.0 * self.batch * self.queries * self.heads * self.head_size * self.entries * self.page

    def views(self) -> Mapping[str, str]:
        """Return the operands' extents. A cache of small pages is a single matrix, from which rows are gathered."""
        if self.page >= WHOLE_PAGES:
            cache = "pages page width" if self.order == "positions" else "pages g page d"
        else:
            cache = "positions width" if self.order == "positions" else "lines d"
        scales = dict.fromkeys(self.optional_inputs, "g") if self.cache else {}
        q = "tokens g r d" if self.queries == 1 else "rows d"
        return {
            "q": q, "k": cache, "v": cache, "table": "batch entries", "lengths": "batch", **scales,
            "out": "tokens g r d",
        }  # fmt: skip

    def extents(self) -> Mapping[str, int]:
        """Return the numbers of tokens, heads, pages and cache rows, and the size of a head."""
        positions = self.pages * self.page
        return {
            "tokens": self.batch * self.queries, "g": self.kv_heads, "r": self.group, "d": self.head_size,
            "rows": self.batch * self.queries * self.heads, "batch": self.batch, "entries": self.entries,
            "pages": self.pages, "page": self.page, "positions": positions, "width": self.kv_heads * self.head_size,
            "lines": positions * self.kv_heads,
        }  # fmt: skip

    @staticmethod
    def compute(p: Any, o: Any, q: Any, k: Any, v: Any, table: Any, lengths: Any, out: Any, **scales: Any) -> None:
        """Write the tile program. As there are few queries, tiles are transposed: scores have one row per key."""
        (_, g, r, d), (batch, entries), page = out.shape, table.shape, o.page
        part = max(p.cover(r), LEAST_COLUMNS // p.cover(o.queries))  # number of columns of scores per query
        columns = part * p.cover(o.queries) if o.queries > 1 else min(part, MOST_COLUMNS)
        parts = p.choose(parts=(1, 2, 4, 8, 16, 32))
        whole = page >= WHOLE_PAGES
        bn = min(page, MOST_TILE) if whole else p.choose(bn=(32, 64, 128))
        sequence, group, i = p.blocks((batch, g, r if o.queries == 1 else 1), (1, 1, columns if o.queries == 1 else 1))
        length = p.load_scalar(lengths, sequence, high=entries * page)
        if o.queries == 1:
            query = p.load(p.window(q[sequence][group], (0, i), (d, columns), turned=True))
        else:
            at = p.columns(0, columns)
            row = ((p.columns(sequence * o.queries, 1) + at // part) * g + p.columns(group, 1)) * r + at % part
            row = p.where((at % part < r) & (at // part < o.queries), row, -1)
            query = p.load(p.window(q, (0, row), (d, columns), turned=True))
        top, total = p.state(p.full((1, columns), -np.inf)), p.state(p.zeros((1, columns)))
        acc = p.state(p.zeros((d, columns)))
        exponent = exponents(p, o.scale or d**-0.5)
        of_keys, of_values = (p.load(p.window(scales[n], (0, group), (1, 1))) if scales else 1.0 for n in SCALES)

        def combine(one: Any, other: Any) -> Any:
            peak = p.maximum(one[0], other[0])
            fades = exponent(one[0], peak), exponent(other[0], peak)
            return peak, *(one[n] * fades[0] + other[n] * fades[1] for n in (1, 2))

        for j in p.split(length, bn, parts=parts, states=(top, total, acc), combine=combine):
            if whole:
                number = p.load_scalar(table, sequence, j // page, high=k.shape[0] - 1)
                wide = o.order == "positions"
                pages = (t[number] if wide else t[number][group] for t in (k, v))
                windows = [p.window(t, (j % page, group * d if wide else 0), (bn, d)) for t in pages]
            else:
                number = p.load(p.window(table, (j // page, sequence), (bn // page, 1), turned=True), padding=-1)
                pages = k.shape[0] // (page if o.order == "positions" else g * page)
                number = p.minimum(p.maximum(number, -1), pages)  # invalid pages stay invalid, and rows fit in 32 bits
                number = p.broadcast(number, dim=0, size=bn)
                inside = p.rows(j, bn) % page
                if o.order == "positions":
                    line, first = number * page + inside, group * d
                else:
                    line, first = (number * g + p.rows(group, 1)) * page + inside, 0
                windows = [p.window(t, (line, first), (bn, d)) for t in (k, v)]
            keys, values = (p.load(window).cast(o.dtype) for window in windows)
            z = p.mma(keys, query)
            if scales:
                z = z * of_keys
            seen = p.rows(j, bn) < length
            if o.queries > 1:
                own = p.columns(0, columns) // part + p.rows(length - (o.queries - 1), 1)
                seen = seen & (p.rows(j, bn) < own)
            z = p.where(seen, z, -np.inf)
            peak = p.maximum(top, p.reduction("maximumf", z, dim=0))
            e, fade = exponent(z, peak), exponent(top, peak)
            total.set(total * fade + p.reduction("add", e, dim=0))
            acc.set(p.mma(p.transpose(values), e.cast(o.dtype), acc * fade))
            top.set(peak)
        result = acc / p.where(total == 0.0, 1.0, total)
        if scales:
            result = result * of_values
        if o.queries == 1:
            p.store(result.cast(o.dtype), p.window(out[sequence][group], (0, i), (d, columns), turned=True))
            return
        for n in range(o.queries):
            own = result[:, n * part : (n + 1) * part].cast(o.dtype)
            p.store(own, p.window(out[sequence * o.queries + n][group], (0, 0), (d, part), turned=True))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``out`` in float64, computed separately for each sequence and head."""
        x = self.loaded(inputs)
        out = np.zeros((self.batch, self.queries, self.heads, self.head_size))
        lengths = np.clip(x["lengths"].astype(np.int64), 0, self.entries * self.page)
        axis = 2 if self.order == "positions" else 1
        scale = self.scale or self.head_size**-0.5
        for b, length in enumerate(lengths):
            keys, values = (self._of_sequence(np.moveaxis(x[n], axis, 0), x["table"][b], length) for n in "kv")
            for h in range(self.heads if length else 0):
                g = h // self.group
                of_keys, of_values = (x[name][g] if self.cache else 1.0 for name in SCALES)
                seen = np.arange(length) <= length - self.queries + np.arange(self.queries)[:, None]
                with np.errstate(invalid="ignore"):
                    scores = np.where(seen, x["q"][b, :, h] @ keys[g].T * (scale * of_keys), -np.inf)
                    peak = scores.max(axis=1, keepdims=True)
                    e = np.exp(scores - np.where(peak == -np.inf, 0.0, peak))
                    total = e.sum(axis=1, keepdims=True)
                    out[b, :, h] = of_values * (e @ values[g]) / np.where(total == 0.0, 1.0, total)
        return {"out": out}

    def _of_sequence(self, cache: FloatArray, table: FloatArray, length: int) -> FloatArray:
        """Return one sequence's keys or values, (kv_heads, length, head_size), from the paged cache."""
        numbers = table[: -(-length // self.page)].astype(np.int64)
        if self.page >= WHOLE_PAGES:
            entries = cache[:, np.clip(numbers, 0, self.pages - 1)]
        else:
            inside = (numbers >= 0) & (numbers < self.pages)
            entries = np.where(inside[:, None, None], cache[:, np.where(inside, numbers, 0)], 0.0)
        whole: FloatArray = entries.reshape(self.kv_heads, -1, self.head_size)[:, :length]
        return whole

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers, random tables and lengths, and positive scales."""
        inputs = super().random_inputs(seed)
        for name in self.optional_inputs if self.cache else ():
            inputs[name] = np.abs(inputs[name]) + np.float32(0.5)
        return inputs

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield negative scores that rise along a sequence, with page numbers and lengths out of range."""
        x, dtype = self.loaded(inputs), self.operand("k").dtype
        rise = np.linspace(-2.0, -1.0, self.pages).reshape(-1, 1, 1, 1) * 512.0 / (self.scale or self.head_size**-0.5)
        k = (np.abs(x["k"]) + 0.5) * rise / self.head_size
        table = np.tile(np.linspace(0, self.pages - 1, self.entries).astype(np.int32), (self.batch, 1))
        if self.page >= WHOLE_PAGES:  # an index out of range selects the last page; with small pages, its scores are 0
            table[:, -1] = self.pages
        case = {
            "q": self.operand("q").dtype.store(np.abs(x["q"]) + 0.5),
            "k": dtype.store(np.maximum(k, -256.0)),
            "table": table,
            "lengths": np.full_like(inputs["lengths"], 2 * self.entries * self.page),
        }
        yield StressInputs(("scores: low and rising",), {**inputs, **case})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with two sequences, two groups of heads, and a few pages per sequence."""
        step = loops.chosen.get("bn", min(self.page, MOST_TILE))
        needed = -(-(loops.count + 1) * step // self.page)
        entries = min(self.entries, max(needed, 2))
        batch, kv_heads = min(self.batch, 2), min(self.kv_heads, 2)
        return replace(
            self, batch=batch, entries=entries, pages=min(self.pages, batch * entries + 1), kv_heads=kv_heads,
            heads=kv_heads * self.group,
        )  # fmt: skip
