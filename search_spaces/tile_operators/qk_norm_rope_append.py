"""RMS norm and rotary positions of queries and keys, and storage of keys and values in a paged cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray, IntArray
from search_spaces.hardware.dtypes import E4M3, F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.decode_attention import CACHES, ORDERS, SCALES, TYPES
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem

WEIGHTS = ("q_weight", "k_weight")
PAGING = ("block_table", "sequence")
NOT_STORED = 8  # in random inputs, on average one in this many tokens has no slot


@dataclass(frozen=True)
class QkNormRopeAppend(TileProblem):
    """Apply RMS norm and rotary positions to queries and keys, and store keys and values in a paged cache in place.

    - qkv (tokens, heads + 2 kv_heads, head_size): queries, keys and values. out (tokens, heads, head_size): queries.
    - positions (tokens,) of i32; table (length, head_size) of f32, as in ``QkNormRope``; with ``norm=1``,
      q_weight and k_weight (head_size,).
    - k and v: (pages, page, kv_heads, head_size), or (pages, kv_heads, page, head_size) with ``order="heads"``.

    Each token has a slot, an index (i32) into the positions of all pages. No two tokens may have the same slot. The
    array ``slots`` (tokens,) contains the slots. With ``sequences``, a slot instead follows from the token's position,
    its sequence (tokens,), and block_table (sequences, entries) of i32, which contains the pages of each sequence.
    Tokens with a slot or page outside the cache are not stored. All other elements are unchanged. With
    ``cache="e4m3"``, stored values are divided by k_scale and v_scale (kv_heads,) of f32.

    The tolerance is the interpreter's bound. Raises ValueError for sizes below 1, head sizes that are not powers of two
    from 16 to 256, and pages that are not powers of two from 16 to 1024.
    """

    operator: ClassVar[str] = "qk_norm_rope_append"
    summary: ClassVar[str] = "queries and keys with norm and rotary positions, keys and values appended to a cache"
    inputs: ClassVar[tuple[str, ...]] = ("qkv", "positions", "table", "k", "v")
    optional_inputs: ClassVar[tuple[str, ...]] = ("slots", *PAGING, *WEIGHTS, *SCALES)
    changed_inputs: ClassVar[tuple[str, ...]] = ("k", "v")
    call_options: ClassVar[Mapping[str, Any]] = {"eps": 1e-6, "order": "positions"}
    size_fields: ClassVar[tuple[str, ...]] = (
        *("tokens", "heads", "kv_heads", "head_size", "pages", "length", "sequences", "entries"),
    )
    scalar_fields: ClassVar[tuple[str, ...]] = ("eps",)

    tokens: int = option("rows of qkv")
    heads: int = option("query heads")
    kv_heads: int = option("heads of keys and values")
    head_size: int = option("elements of a head", 128)
    page: int = option("positions of a page", 16)
    pages: int = option("pages of the cache; by default as many as the tokens may need", 0)
    sequences: int = option("rows of the block table; 0 if slots replace the table", 0)
    entries: int = option("columns of the block table", 0)
    length: int = option("rows of the table of cosines and sines", 4096)
    norm: int = option("1 for an RMS norm before the rotary positions", 1)
    dtype: str = option("type of qkv, weights and out", "bf16", choices=TYPES)
    cache: str = option("type of keys and values; by default the type of qkv", "", choices=CACHES[1:])
    order: str = option("outer dimension of a page", "positions", flag="--page-order", choices=ORDERS)
    eps: float = option("added to the mean of the squares", 1e-6)

    def __post_init__(self) -> None:
        self._take_types("dtype", "cache")
        self._take_extents("tokens", "heads", "kv_heads", "head_size", "page", "length")
        self._take_sizes("pages", "sequences", "entries", least=0)
        if self.cache == self.dtype:
            object.__setattr__(self, "cache", "")
        for name, value, known in (
            ("dtype", self.dtype, TYPES), ("cache", self.cache, CACHES), ("order", self.order, ORDERS)
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"{name} must be {' or '.join(filter(None, known))}, not {value!r}")
        if bool(self.sequences) != bool(self.entries):
            raise ValueError("for a block table, give both sequences and entries; for slots, give neither")
        if not self.pages:
            needed = self.sequences * self.entries or -(-self.tokens // self.page) + 1
            object.__setattr__(self, "pages", needed)
        if self.head_size & (self.head_size - 1) or not 16 <= self.head_size <= 256:
            raise ValueError(f"head_size must be a power of two from 16 to 256, not {self.head_size}")
        if self.page & (self.page - 1) or not 16 <= self.page <= 1024:
            raise ValueError(f"page must be a power of two from 16 to 1024, not {self.page}")
        if self.norm not in (0, 1):
            raise ValueError(f"norm must be 0 or 1, not {self.norm!r}")
        if self.pages * self.page * self.kv_heads >= 2**31:
            raise ValueError("the cache is too large: keep pages x page x kv_heads under 2^31")

    @property
    def positions(self) -> int:
        """Number of positions in all pages of the cache."""
        return self.pages * self.page

    @property
    def rows(self) -> int:
        """Number of heads of queries, keys and values together."""
        return self.heads + 2 * self.kv_heads

    def operands(self) -> tuple[Operand, ...]:
        """Return qkv, positions, table, slots or block table, optional weights and scales, then k, v and out."""
        own, cached = FLOAT_DTYPES[self.dtype], E4M3 if self.cache else FLOAT_DTYPES[self.dtype]
        within = (self.page, self.kv_heads) if self.order == "positions" else (self.kv_heads, self.page)
        of_tokens = ("sequence",) if self.sequences else ("slots",)
        return (
            Operand("qkv", "input", own, (self.tokens, self.rows, self.head_size)),
            Operand("positions", "input", I32, (self.tokens,)),
            Operand("table", "input", F32, (self.length, self.head_size)),
            *(Operand(name, "input", I32, (self.tokens,)) for name in of_tokens),
            *([Operand("block_table", "input", I32, (self.sequences, self.entries))] if self.sequences else []),
            *(Operand(name, "input", own, (self.head_size,)) for name in WEIGHTS if self.norm),
            *(Operand(name, "input", F32, (self.kv_heads,)) for name in SCALES if self.cache),
            *(Operand(name, "inout", cached, (self.pages, *within, self.head_size)) for name in ("k", "v")),
            Operand("out", "output", own, (self.tokens, self.heads, self.head_size)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for qkv, k and table; weights, scales and the block table must be complete."""
        qkv, k, table = (shapes[name] for name in ("qkv", "k", "table"))
        if (len(qkv), len(k), len(table)) != (3, 4, 2):
            raise ValueError(
                "qk_norm_rope_append takes qkv (tokens, heads, head_size), k and v of 4 dimensions, and table "
                f"(length, head_size), not {qkv}, {k} and {table}"
            )
        paged = [name in shapes for name in PAGING]
        if any(paged) != all(paged) or ("slots" in shapes) == any(paged):
            raise ValueError("qk_norm_rope_append takes slots, or else block_table and sequence")
        weights, scales = ([name in shapes for name in names] for names in (WEIGHTS, SCALES))
        if any(weights) != all(weights):
            raise ValueError("give q_weight and k_weight, or neither for rotary positions alone")
        cache = "e4m3" if types["k"] == "e4m3" else ""
        if any(scales) != all(scales) or any(scales) != bool(cache):
            raise ValueError("give k_scale and v_scale for a cache of e4m3, and only for such a cache")
        if any(paged) and len(shapes["block_table"]) != 2:
            raise ValueError(f"block_table must be (sequences, entries), not {shapes['block_table']}")
        page, kv_heads = (k[1], k[2]) if options.get("order", "positions") == "positions" else (k[2], k[1])
        sequences, entries = shapes["block_table"] if any(paged) else (0, 0)
        if qkv[1] <= 2 * kv_heads:
            raise ValueError(f"qkv must have more than the {2 * kv_heads} heads of keys and values, not {qkv[1]}")
        return cls(
            tokens=qkv[0], heads=qkv[1] - 2 * kv_heads, kv_heads=kv_heads, head_size=qkv[2], page=page, pages=k[0],
            sequences=sequences, entries=entries, length=table[0], norm=int(all(weights)), dtype=types["qkv"],
            cache=cache, **options,
        )  # fmt: skip

    @property
    def flops(self) -> float:
        """Number of operations: about eight per element of queries and keys."""
        return 8.0 * self.tokens * (self.heads + self.kv_heads) * self.head_size

    @cached_property
    def min_bytes(self) -> int:
        """Bytes of all arrays. For the cache and the table, only the rows that the tokens use are counted."""
        tokens, sizes = self.tokens, {o.name: o.bytes for o in self.operands()}
        cached = self.operand("k").dtype.bytes
        sizes |= dict.fromkeys(("k", "v"), tokens * self.kv_heads * self.head_size * cached)
        sizes["table"] = min(tokens, self.length) * self.head_size * F32.bytes
        return sum(sizes.values())

    def views(self) -> Mapping[str, str]:
        """Return the operands' extents. The cache is a matrix with one row per position and head (``lines``)."""
        known = {
            "qkv": "t rows d", "positions": "t", "table": "length d", "k": "lines d", "v": "lines d", "out": "t h d",
            "slots": "t", "sequence": "t", "block_table": "sequences entries", **dict.fromkeys(WEIGHTS, "d"),
            **dict.fromkeys(SCALES, "g"),
        }  # fmt: skip
        return {o.name: known[o.name] for o in self.operands()}

    def extents(self) -> Mapping[str, int]:
        """Return the numbers of tokens and heads, and the sizes of the table and the cache."""
        return {
            "t": self.tokens, "rows": self.rows, "h": self.heads, "g": self.kv_heads, "d": self.head_size,
            "length": self.length, "lines": self.positions * self.kv_heads, "sequences": self.sequences,
            "entries": self.entries,
        }  # fmt: skip

    @staticmethod
    def compute(p: Any, o: Any, qkv: Any, positions: Any, table: Any, k: Any, v: Any, out: Any, **more: Any) -> None:
        """Write the tile program: each block has some heads of one token. Surplus rows of a tile are not stored."""
        (t, rows, d), (_, h, _), page = qkv.shape, out.shape, o.page
        g, half, bh = (rows - h) // 2, d // 2, p.choose(bh=(1, 2, 4, 8, 16, 32))
        token, i = p.blocks((t, rows), (1, bh))
        head, halves = p.rows(i, bh), (0, half)
        low, high = pair = [p.load(p.window(qkv[token], (i, at), (bh, half))).cast("f32") for at in halves]
        if o.norm:
            squares = p.reduction("add", low * low + high * high, dim=1)
            scale = p.rsqrt(squares * (1.0 / d) + o.eps)
            for n, at in enumerate(halves):
                of_q, of_k = (p.load(p.window(more[name], (0, at), (1, half))).cast("f32") for name in WEIGHTS)
                pair[n] = pair[n] * scale * p.where(head < h, of_q, of_k)
        row = p.load(p.window(positions, (token, 0), (1, 1), column=True), padding=-1)
        cosines, sines = (p.load(p.window(table, (row, at), (1, half))) for at in halves)
        turned = pair[0] * cosines - pair[1] * sines, pair[1] * cosines + pair[0] * sines
        for part, at in zip(turned, halves, strict=True):
            p.store(part.cast(o.dtype), p.window(out[token], (i, at), (bh, half)))
        if "slots" in more:
            slot = p.load(p.window(more["slots"], (token, 0), (1, 1), column=True), padding=-1)
        else:
            of = p.load(p.window(more["sequence"], (token, 0), (1, 1), column=True), padding=-1)
            number = p.load(p.window(more["block_table"], (of, row // page), (1, 1)), padding=-1)
            inside = (row >= 0) & (number >= 0) & (number < k.shape[0] // (g * page))
            slot = p.where(inside, number * page + row % page, -1)
        stored = (slot >= 0) & (slot < k.shape[0] // g)
        for cached, parts, name, first in ((k, turned, "k_scale", h), (v, (low, high), "v_scale", h + g)):
            own = head - first
            line = slot * g + own if o.order == "positions" else ((slot // page) * g + own) * page + slot % page
            line = p.where(stored & (own >= 0) & (own < g), line, -1)
            divisor = p.load(p.window(more[name], p.where(own < g, own, -1), (bh, 1)), padding=1.0) if o.cache else None
            for part, at in zip(parts, halves, strict=True):
                part = part if divisor is None else part / divisor
                p.store(part.cast(o.cache or o.dtype), p.window(cached, (line, at), (bh, half)))

    def slots_of(self, inputs: Mapping[str, Array]) -> IntArray:
        """Return the slot of each token, (tokens,); -1 for tokens that are not stored."""
        if not self.sequences:
            slots = inputs["slots"].astype(np.int64)
            return np.where((slots >= 0) & (slots < self.positions), slots, -1)
        sequence, position, pages = (inputs[n].astype(np.int64) for n in ("sequence", "positions", "block_table"))
        entry = position // self.page
        known = (sequence >= 0) & (sequence < self.sequences) & (entry >= 0) & (entry < self.entries)
        number = pages[np.where(known, sequence, 0), np.where(known, entry, 0)]
        known &= (number >= 0) & (number < self.pages)
        return np.where(known, number * self.page + position % self.page, -1)

    def unchanged(self, inputs: Mapping[str, Array]) -> Mapping[str, BoolArray]:
        """Return masks of the cache's elements that no token overwrites."""
        slots = self.slots_of(inputs)
        free = np.ones(self.positions, dtype=np.bool_)
        free[slots[slots >= 0]] = False
        mask = free.reshape(self.pages, self.page)
        mask = mask[:, :, None, None] if self.order == "positions" else mask[:, None, :, None]
        return {name: np.broadcast_to(mask, self.operand(name).shape) for name in self.changed_inputs}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the rotated queries, and the cache with the stored tokens, in float64."""
        x, half, h, g = self.loaded(inputs), self.head_size // 2, self.heads, self.kv_heads
        with np.errstate(all="ignore"):
            heads, values = x["qkv"][:, : h + g], x["qkv"][:, h + g :]
            if self.norm:
                mean = np.square(heads).mean(axis=-1, keepdims=True)
                weights = np.repeat([x[name] for name in WEIGHTS], (h, g), axis=0)
                heads = heads / np.sqrt(mean + self.eps) * weights
            at = x["positions"].astype(np.int64)
            inside = (at >= 0) & (at < self.length)
            angles = np.where(inside[:, None], x["table"][np.where(inside, at, 0)], 0.0)[:, None]
            low, high, cosines, sines = heads[..., :half], heads[..., half:], angles[..., :half], angles[..., half:]
            turned = np.concatenate((low * cosines - high * sines, high * cosines + low * sines), axis=-1)
            slots, results = self.slots_of(inputs), {"out": turned[:, :h]}
            stored = np.flatnonzero(slots >= 0)
            pages, entries = np.divmod(slots[stored], self.page)
            for name, rows in (("k", turned[:, h:]), ("v", values)):
                results[name] = x[name].copy()
                of = results[name] if self.order == "positions" else results[name].swapaxes(1, 2)
                of[pages, entries] = rows[stored] / (x[f"{name}_scale"][:, None] if self.cache else 1.0)
        return results

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return random inputs: pages are in random order, and on average, one of eight tokens has no slot."""
        inputs, rng = super().random_inputs(seed), np.random.default_rng((seed, 3))
        for name in SCALES if self.cache else ():
            inputs[name] = np.abs(inputs[name]) + np.float32(0.5)
        dropped = rng.integers(0, NOT_STORED, self.tokens) == 0
        if not self.sequences:
            pages = rng.permutation(self.pages)
            drawn = (pages[:, None] * self.page + np.arange(self.page)).reshape(-1)
            drawn = np.roll(drawn, min(self.tokens // 2, self.page) - self.page)  # slots before and after a page's end
            slots = np.resize(drawn, self.tokens)
            dropped |= np.arange(self.tokens) >= self.positions
            inputs["slots"] = np.where(dropped, -1, slots).astype(np.int32)
            return inputs
        shape, whole = (self.sequences, self.entries), self.entries * self.page
        count = self.sequences * self.entries
        pages = rng.permutation(max(self.pages, count))[:count]
        inputs["block_table"] = pages.astype(np.int32).reshape(shape)
        drawn = rng.permutation(self.sequences * whole)  # no position occurs twice, and some sequences have no tokens
        drawn = np.sort(np.resize(drawn, self.tokens))
        dropped |= np.concatenate(([False], drawn[1:] == drawn[:-1]))
        inputs["sequence"] = np.where(dropped, -1, drawn // whole).astype(np.int32)
        inputs["positions"] = (drawn % whole).astype(np.int32)
        return inputs

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield edge cases of the cache, then edge cases of the numbers."""
        yield from self.cache_cases(seed)
        yield from super().stress_inputs(seed)

    def cache_cases(self, seed: int) -> tuple[StressInputs, StressInputs, StressInputs]:
        """Return three sets of inputs: arbitrary bits in the cache, slots outside of it, and no stored tokens.

        If a kernel multiplied slots by heads in 32 bits, some slots outside of the cache would wrap into it.
        """
        usual, rng = self._shaped(self.random_inputs(seed)), np.random.default_rng((seed, 4))
        caches = {
            name: np.frombuffer(rng.bytes(usual[name].nbytes), usual[name].dtype).reshape(usual[name].shape)
            for name in self.changed_inputs
        }
        of, limit = ("block_table", self.pages) if self.sequences else ("slots", self.positions)
        wrapped = -(-(2**32) // (self.page if self.sequences else self.kv_heads))
        outside, spared = usual[of].reshape(-1).astype(np.int64), usual[of].size // 3
        outside[spared:] = np.resize([wrapped, -wrapped, limit, -1, 2**31 - 1, -(2**31)], outside.size - spared)
        outside = outside.astype(np.uint32).view(np.int32)
        zeros = usual["qkv"].copy()
        zeros[::2] = 0
        return (
            StressInputs(("k, v: any bits", "qkv: zero"), {**usual, **caches, "qkv": zeros}),
            StressInputs((f"{of}: outside",), {**usual, **caches, of: outside.reshape(usual[of].shape)}),
            StressInputs((f"{of}: nothing is stored",), {**usual, **caches, of: np.full_like(usual[of], -1)}),
        )

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few heads of a few tokens, and a few pages."""
        bh = loops.chosen["bh"]
        more = max(0, (self.heads - 1) // bh - 1)
        return replace(
            self, tokens=min(self.tokens, 3), heads=self.heads - more * bh, length=min(self.length, 64),
            pages=min(self.pages, 6), sequences=min(self.sequences, 3), entries=min(self.entries, 2),
        )  # fmt: skip
