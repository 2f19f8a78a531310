"""Attention over whole sequences: masks, windows, biases, soft caps, sinks, and sequences of different lengths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem

TYPES = ("f16", "bf16")
DEPTH = 16  # depth of mma.sync for 16-bit types; head sizes are padded to multiples of this depth
LEAST_HEAD, MOST_HEAD = 16, 256


@dataclass(frozen=True)
class Attention(TileProblem):
    """``softmax(scores) v`` with scores ``scale q k^T``, which may be capped, biased and masked.

    Arrays: q (batch, heads, queries, head_size), k (batch, kv_heads, keys, head_size), v (batch, kv_heads, keys,
    value_size), out (batch, heads, queries, value_size). With ``packed=1``, sequences of any lengths are concatenated:
    q and out (total, heads, size), k and v (total, kv_heads, size). offsets (batch + 1,) of i32 ascends from 0 to
    total, and both ``queries`` and ``keys`` equal total.

    The options apply in this order. The last query has the same position as the last key.

    - ``soft_cap`` c replaces a score by ``c tanh(score / c)``.
    - ``alibi=1``: slopes (heads,) of f32 add ``slope (key - query)`` to scores.
    - ``causal=1`` masks the keys after a query.
    - ``window`` w keeps the last w keys up to and including the query's own position.
    - ``sinks=1``: sinks (heads,) of f32 add ``exp(sink)`` to each sum of exponentials.
    - ``log_sum_exp=1`` adds lse of f32, the logarithm of each sum: (batch, heads, queries), or packed (heads, total).

    A query without keys gives zeros. Without sinks, its lse is -infinity. With ``packed=1``, all keys and values must
    be finite, because tiles also read those of neighbouring sequences, with weight 0. The tolerance is the
    interpreter's bound: weights are rounded to q's type before they multiply values. Raises ValueError for sizes below
    1, head sizes that are not multiples of 8 (packed: 16) from 16 to 256, heads that are not a multiple of kv_heads,
    different numbers of packed queries and keys, and a window without ``causal``.
    """

    operator: ClassVar[str] = "attention"
    summary: ClassVar[str] = "softmax(q k^T) v with masks, windows, biases and sequences of any lengths"
    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    optional_inputs: ClassVar[tuple[str, ...]] = ("offsets", "slopes", "sinks")
    call_options: ClassVar[Mapping[str, Any]] = {"causal": False, "window": 0, "soft_cap": 0.0, "scale": 0.0}
    size_fields: ClassVar[tuple[str, ...]] = (
        "batch",
        "heads",
        "kv_heads",
        "queries",
        "keys",
        "head_size",
        "value_size",
    )

    batch: int = option("sequences")
    heads: int = option("query heads")
    kv_heads: int = option("number of heads of keys and values; must divide heads")
    queries: int = option("queries per sequence; with packed=1, of all sequences together")
    keys: int = option("keys per sequence; by default the number of queries", 0)
    head_size: int = option("elements of a head of q and k", 128)
    value_size: int = option("elements of a head of v; by default head_size", 0)
    dtype: str = option("type of q, k, v and out", "bf16", choices=TYPES)
    packed: int = option("1 for concatenated sequences of any lengths", 0)
    causal: int = option("1 to mask the keys after a query", 0)
    window: int = option("largest number of keys that a query attends to; 0 for all", 0)
    soft_cap: float = option("limit of the magnitude of scores; 0 for none", 0.0)
    scale: float = option("factor of q k^T; 0 for 1 / sqrt(head_size)", 0.0)
    alibi: int = option("1 for ALiBi: scores decrease in proportion to distance, by a slope per head", 0)
    sinks: int = option("1 for an attention sink per head", 0)
    log_sum_exp: int = option("1 to also return the logarithm of each sum of exponentials", 0)

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``batch``, unless sequences are packed."""
        return {} if self.packed else {"batch": 16}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_sizes("keys", "value_size", "window", least=0)
        for name, usual in (("keys", self.queries), ("value_size", self.head_size)):
            object.__setattr__(self, name, getattr(self, name) or usual)
        for name in ("packed", "causal", "alibi", "sinks", "log_sum_exp"):
            if getattr(self, name) not in (0, 1):
                raise ValueError(f"{name} must be 0 or 1, not {getattr(self, name)!r}")
            object.__setattr__(self, name, int(getattr(self, name)))
        self._take_extents("batch", "heads", "kv_heads", "queries", "keys", "head_size", "value_size")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype must be {' or '.join(TYPES)}, not {self.dtype!r}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads: {self.kv_heads} does not divide {self.heads}")
        unit = DEPTH if self.packed else 8
        for name in ("head_size", "value_size"):
            size = getattr(self, name)
            if size % unit or not LEAST_HEAD <= size <= MOST_HEAD:
                raise ValueError(f"{name} must be a multiple of {unit} from {LEAST_HEAD} to {MOST_HEAD}, not {size}")
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

    def operands(self) -> tuple[Operand, ...]:
        """Return q, k, v, the optional offsets, slopes and sinks, then out and the optional lse."""
        own = FLOAT_DTYPES[self.dtype]

        def array(heads: int, rows: int, size: int) -> tuple[int, ...]:
            return (rows, heads, size) if self.packed else (self.batch, heads, rows, size)

        more = [("slopes", self.alibi), ("sinks", self.sinks)]
        lse = (self.heads, self.queries) if self.packed else (self.batch, self.heads, self.queries)
        return (
            Operand("q", "input", own, array(self.heads, self.queries, self.head_size)),
            Operand("k", "input", own, array(self.kv_heads, self.keys, self.head_size)),
            Operand("v", "input", own, array(self.kv_heads, self.keys, self.value_size)),
            *([Operand("offsets", "input", I32, (self.batch + 1,))] if self.packed else []),
            *(Operand(name, "input", F32, (self.heads,)) for name, present in more if present),
            Operand("out", "output", own, array(self.heads, self.queries, self.value_size)),
            *([Operand("lse", "output", F32, lse)] if self.log_sum_exp else []),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for q, k and v, packed if there are offsets."""
        packed = "offsets" in shapes
        if any(len(shapes[name]) != (3 if packed else 4) for name in ("q", "k", "v")):
            raise ValueError(
                "attention takes q, k and v (batch, heads, positions, size), or with offsets (total, heads, size), not "
                + ", ".join(str(shapes[name]) for name in ("q", "k", "v"))
            )
        q, k, v = (shapes[name] for name in ("q", "k", "v"))
        if packed:
            batch, (queries, heads, size), (keys, kv_heads, _) = shapes["offsets"][0] - 1, q, k
        else:
            batch, heads, queries, size = q
            kv_heads, keys = k[1:3]
        return cls(
            batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, head_size=size,
            value_size=v[-1], dtype=types["q"], packed=int(packed), alibi=int("slopes" in shapes),
            sinks=int("sinks" in shapes), **{**options, "causal": int(options.get("causal", False))},
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """Operations on all unmasked pairs; packed sequences are assumed to have equal lengths."""
        rows = -(-self.queries // self.batch) if self.packed else self.queries
        keys = rows if self.packed else self.keys
        pairs = float(rows * keys)
        if self.causal:
            last = np.minimum(np.arange(rows) + keys - rows + 1, self.window or keys).clip(0)
            pairs = float(last.sum())
        return 2.0 * self.batch * self.heads * pairs * (self.head_size + self.value_size)

    def views(self) -> Mapping[str, str]:
        """Return the operands' extents; packed arrays are matrices whose rows contain all heads of a position."""
        more = {"offsets": "ends"} if self.packed else {}
        more |= dict.fromkeys([n for n, present in (("slopes", self.alibi), ("sinks", self.sinks)) if present], "h")
        if self.packed:
            lse = {"lse": "h s"} if self.log_sum_exp else {}
            return {"q": "s wide_q", "k": "s wide_k", "v": "s wide_v", **more, "out": "s wide_out", **lse}
        lse = {"lse": "b h s"} if self.log_sum_exp else {}
        return {"q": "b h s d", "k": "b g t d", "v": "b g t e", **more, "out": "b h s e", **lse}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes b, h, g, s, t, d and e, and the row widths of packed arrays."""
        d, e = self.head_size, self.value_size
        return {
            "b": self.batch, "h": self.heads, "g": self.kv_heads, "s": self.queries, "t": self.keys, "d": d, "e": e,
            "ends": self.batch + 1, "wide_q": self.heads * d, "wide_k": self.kv_heads * d,
            "wide_v": self.kv_heads * e, "wide_out": self.heads * e,
        }  # fmt: skip

    def options(self) -> Mapping[str, Any]:
        """Return the options. For packed arrays, add the sizes that do not follow from the arrays' shapes."""
        sizes = {"d": self.head_size, "e": self.value_size, "h": self.heads, "g": self.kv_heads, "b": self.batch}
        return {**super().options(), "sizes": tuple(sizes.items()) if self.packed else ()}

    @staticmethod
    def compute(p: Any, o: Any, q: Any, k: Any, v: Any, out: Any, lse: Any = None, **more: Any) -> None:
        """Write the tile program: an online softmax. Several blocks may divide the keys of a tile of queries."""
        if o.packed:
            sizes, s = dict(o.sizes), q.shape[0]
            h, g, d, e = (sizes[name] for name in "hgde")
            b, t = sizes["b"], s
        else:
            (b, h, s, d), (_, g, t, e) = q.shape, v.shape
        bm, bn, parts = p.choose(bm=(64, 128), bn=(32, 64, 128), parts=(1, 2, 4, 8, 16))
        wide, tall = (-(-size // DEPTH) * DEPTH for size in (d, e))
        sequence, head, tile = p.blocks((b, h, s), (1, 1, bm))
        group = head // (h // g)
        if o.packed:
            begin, end = (p.load_scalar(more["offsets"], sequence + at, high=s, ordered=True) for at in (0, 1))
            i, last, offset = p.minimum(begin + tile, s), end, 0
            query_window = p.window(q, (i, head * d), (bm, wide))
            arrays, columns = (k, v), (group * d, group * e)
            present = p.minimum(p.maximum(end - i, 0), 1)  # 0 if the block is beyond the sequence's end, else 1
        else:
            begin, i, last, offset, present = 0, tile, t, t - s, 1
            query_window = p.window(q[sequence][head], (i, 0), (bm, wide))
            arrays, columns = (k[sequence][group], v[sequence][group]), (0, 0)
        query = p.load(query_window)
        scale = o.scale or d**-0.5
        plain = not (o.soft_cap or o.alibi)  # scores are not scaled here, as ``factor`` includes the scale
        factor = scale * LOG2_E if plain else LOG2_E

        def of_head(name: str) -> Any:
            return p.load(p.window(more[name], (0, head), (1, 1)))

        def fades(peak: Any, *rest: Any) -> list[Any]:
            """Return the factors that rescale sums of exponentials from each maximum in ``rest`` to ``peak``."""
            centre = p.where(peak == -inf, 0.0, peak * factor)
            return [p.exp2(other * factor - centre) for other in rest]

        def combine(one: Any, other: Any) -> Any:
            peak = p.maximum(one[0], other[0])
            first, second = fades(peak, one[0], other[0])
            return peak, *(one[n] * first + other[n] * second for n in (1, 2))

        slope = of_head("slopes") if o.alibi else None
        top, total = p.state(p.full((bm, 1), -inf)), p.state(p.zeros((bm, 1)))
        acc = p.state(p.zeros((bm, tall)))
        stop = p.minimum(last, i + (bm + offset)) if o.causal else last
        if o.packed:
            stop = p.minimum(stop, begin + present * s)
        start = begin
        if o.window:
            start = p.maximum(begin, p.maximum(i + (offset - o.window + 1), 0) // bn * bn)
        for j in p.split(stop, bn, first=start, parts=parts, states=(top, total, acc), combine=combine):
            keys, values = (
                p.load(p.window(array, (j, column), (bn, size)))
                for array, column, size in zip(arrays, columns, (wide, tall), strict=True)
            )
            z = p.mma(query, p.transpose(keys))
            if not plain:
                z = z * scale if not o.soft_cap else p.tanh(z * (scale / o.soft_cap)) * o.soft_cap
            if o.alibi:
                z = z + (p.columns(j, bn) - p.rows(i + offset, bm)).cast("f32") * slope
            seen = p.columns(j, bn) < last if not o.packed else p.columns(j, bn) < p.columns(last, 1)
            if o.causal:
                seen = seen & (p.columns(j, bn) <= p.rows(i + offset, bm))
            if o.window:
                seen = seen & (p.columns(j, bn) > p.rows(i + (offset - o.window), bm))
            z = p.where(seen, z, -inf)
            peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
            weights, fade = fades(peak, z, top)
            total.set(total * fade + p.reduction("add", weights, dim=1))
            acc.set(p.mma(weights.cast(o.dtype), values, acc * fade))
            top.set(peak)
        if o.sinks:
            sink = p.broadcast(of_head("sinks") * (LOG2_E / factor), dim=0, size=bm)
            peak = p.maximum(top, sink)
            fade, more_total = fades(peak, top, sink)
            total.set(total * fade + more_total)
            acc.set(acc * fade)
            top.set(peak)
        result = (acc * (1.0 / p.where(total == 0.0, 1.0, total))).cast(o.dtype)
        below = {"rows_below": last} if o.packed else {}
        at = p.window(out, (i, head * e), (bm, tall)) if o.packed else p.window(out[sequence][head], (i, 0), (bm, tall))
        p.store(result, at, **below)
        if lse is not None:
            sums = (top * factor + p.log2(total)) * (1.0 / LOG2_E)
            of_sequence = lse if o.packed else lse[sequence]
            p.store(sums, p.window(of_sequence, (i, head), (bm, 1), turned=True), **below)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return ``out`` and the optional ``lse`` in float64, computed separately for each head and sequence."""
        x = self.loaded(inputs)
        results = {
            o.name: np.full(o.shape, -np.inf if o.name == "lse" else 0.0) for o in self.operands() if o.role == "output"
        }
        if self.packed:
            ends = x["offsets"].astype(np.int64)
            parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        for b in range(self.batch):
            for h in range(self.heads):
                g = h // self.group
                if self.packed:
                    q, k, v = x["q"][parts[b], h], x["k"][parts[b], g], x["v"][parts[b], g]
                else:
                    q, k, v = x["q"][b, h], x["k"][b, g], x["v"][b, g]
                out, sums = self._of_head(q, k, v, *(x[n][h] if n in x else None for n in ("slopes", "sinks")))
                if self.packed:
                    results["out"][parts[b], h] = out
                else:
                    results["out"][b, h] = out
                if self.log_sum_exp:
                    line = results["lse"][h] if self.packed else results["lse"][b, h]
                    line[parts[b] if self.packed else slice(None)] = sums
        return results

    def _of_head(
        self, q: FloatArray, k: FloatArray, v: FloatArray, slope: float | None, sink: float | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the output of one head, and the logarithms of its sums of exponentials."""
        with np.errstate(all="ignore"):
            scores = q @ k.T * (self.scale or self.head_size**-0.5)
            if self.soft_cap:
                scores = self.soft_cap * np.tanh(scores / self.soft_cap)
            rows, columns = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
            if slope is not None:
                scores = scores + slope * (columns - rows)
            if self.causal:
                scores = np.where(columns <= rows, scores, -np.inf)
            if self.window:
                scores = np.where(columns > rows - self.window, scores, -np.inf)
            peak = scores.max(axis=1, keepdims=True, initial=-np.inf if sink is None else sink)
            centre = np.where(peak == -np.inf, 0.0, peak)
            weights = np.exp(scores - centre)
            total = weights.sum(axis=1, keepdims=True) + (0.0 if sink is None else np.exp(sink - centre))
            result = weights @ v / np.where(total == 0.0, 1.0, total)
            return result, (centre + np.log(total))[:, 0]

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield inputs with negative scores that rise along the keys, so that the running maximum always changes."""
        x, types = self.loaded(inputs), {name: self.operand(name).dtype for name in ("q", "k")}
        rise = np.linspace(-2.0, -1.0, self.keys) * 512.0 / (self.scale or self.head_size**-0.5)
        k = (np.abs(x["k"]) + 0.5) * rise.reshape((-1, 1, 1) if self.packed else (-1, 1)) / self.head_size
        case = {"q": types["q"].store(np.abs(x["q"]) + 0.5), "k": types["k"].store(np.maximum(k, -256.0))}
        yield StressInputs(("scores: low and rising",), {**inputs, **case})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with two sequences, two groups of two heads, and a few tiles of queries and keys."""
        bm, bn = loops.chosen["bm"], loops.chosen["bn"]
        count = loops.count if self.reduced_to_long_loops(loops) is None else loops.of_few_parts
        tied = bool(self.causal or self.alibi or self.packed)
        extents = PositionCut((bm, bn), (bm, count * bn), tied, 2 if self.packed else 1).of(self)
        return replace(self, **extents, **fewer_heads(self.batch, self.kv_heads, self.group))

    def reduced_to_long_loops(self, loops: ReducedLoops) -> Self | None:
        """Return a problem with few queries after many keys, if more than two blocks share the keys of a tile.

        If there are as many queries as keys, ``reduced`` keeps both equal, so the work is quadratic in the iterations.
        The problem returned here has two tiles of queries after a long prefix of keys. With a window, the result is
        None: all tiles would have the same number of iterations, and such a problem has other legal schedules.
        """
        tied = bool(self.causal or self.alibi) and not self.packed and self.queries == self.keys and not self.window
        if not tied or loops.of_few_parts in (0, loops.count):
            return None
        bm, bn = loops.chosen["bm"], loops.chosen["bn"]
        extents = PositionCut((bm, bn), (bm, loops.count * bn), tied=False).of(self)
        if self.kv_heads > 1:
            return replace(self, **extents, batch=1, heads=2, kv_heads=2)
        return replace(self, **extents, batch=1, heads=min(self.heads, 2))


class AttendedPositions(Protocol):
    """Options of attention or attention_backward that determine which keys a query attends to."""

    @property
    def queries(self) -> int:
        """Number of queries."""

    @property
    def keys(self) -> int:
        """Number of keys."""

    @property
    def window(self) -> int:
        """Largest number of keys that a query attends to; 0 for all."""


@dataclass(frozen=True)
class PositionCut:
    """Reduction of the numbers of queries and keys to a few tiles, in which each mask still masks some keys.

    Attributes:
        tiles: Tile sizes along queries and keys.
        least: Smallest numbers of queries and keys, in whole tiles, with which every loop is executed.
        tied: True if results depend on positions of queries relative to keys. Equal numbers of both then stay equal.
        sequences: Number of packed sequences that share the positions; the longest must exceed the window, if any.
    """

    tiles: tuple[int, int]
    least: tuple[int, int]
    tied: bool
    sequences: int = 1

    def of(self, positions: AttendedPositions) -> Mapping[str, Any]:
        """Return the reduced sizes. Last tiles keep their lengths, and the larger of both numbers stays the larger."""
        (of_queries, of_keys), (queries, keys), window = self.tiles, self.least, positions.window
        if 0 < window < positions.keys:  # the window must still mask keys in the first or last tile of some loops
            window = min(window, max(keys - of_queries, of_keys) + (window % of_keys or of_keys))
            keys = max(keys, self.sequences * (window + of_queries + of_keys))
        if self.tied and positions.queries == positions.keys:
            of_both = max(of_queries, of_keys)
            keys = queries = _whole(positions.keys, of_both, max(queries, keys))
            return {"queries": queries, "keys": keys, "window": window}
        queries = _whole(positions.queries, of_queries, queries)
        if positions.keys > positions.queries:
            keys = max(keys, queries)
        keys = _whole(positions.keys, of_keys, keys)
        if positions.keys < positions.queries:
            queries = _whole(positions.queries, of_queries, max(queries - of_queries, keys))
        return {"queries": queries, "keys": keys, "window": window}


def _whole(size: int, tile: int, least: int) -> int:
    """Return the reduced size: enough whole tiles for ``least``, plus a tile as long as the last tile of ``size``."""
    return min(size, -(-least // tile) * tile + (size % tile or tile))


def fewer_heads(batch: int, kv_heads: int, group: int) -> Mapping[str, Any]:
    """Return the fields for at most two sequences and two groups, with at most two heads per group."""
    kv_heads = min(kv_heads, 2)
    return {"batch": min(batch, 2), "kv_heads": kv_heads, "heads": kv_heads * min(group, 2)}
