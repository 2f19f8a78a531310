"""Attention of whole sequences, its gradients, and attention over a paged cache, as functions of arrays."""

from __future__ import annotations

from typing import Any

from autosched.dispatch.functions import Source, call_tile_operator
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention


def attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any = None,
    *,
    offsets: Any = None,
    slopes: Any = None,
    sinks: Any = None,
    causal: bool = False,
    window: int = 0,
    soft_cap: float = 0.0,
    scale: float = 0.0,
    log_sum_exp: bool = False,
    database: Source | None = None,
) -> Any:
    """Compute attention of whole sequences.

    Args:
        q: (batch, heads, queries, head_size) of f16 or bf16; with ``offsets``, the shape is (total, heads, head_size).
        k: (batch, kv_heads, keys, head_size), or with ``offsets`` (total, kv_heads, head_size).
        v: Like ``k``; the head size may differ.
        out: Array for the result, or a pair of arrays with ``log_sum_exp``. Default: new arrays.
        offsets: (batch + 1,) of int32, ascending from 0 to the total. Start of each sequence in packed arrays, which
            have no batch axis.
        slopes: (heads,) of f32: decrease of a key's score per position of distance (ALiBi).
        sinks: (heads,) of f32, whose exponentials are added to the softmax denominators.
        causal: If True, a query sees only keys up to its own position; the last query is at the position of the last
            key.
        window: Maximum number of keys that a query sees; 0 for all.
        soft_cap: Bound of the scores' magnitude, applied with tanh; 0 for none.
        scale: Factor of ``q k^T``; 0 for ``1 / sqrt(head_size)``.
        log_sum_exp: If True, also return the logarithm of each softmax denominator: (batch, heads, queries) of f32, or
            with ``offsets`` (heads, total).
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or the new array; with ``log_sum_exp`` a pair of the result and the logarithms.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"q": q, "k": k, "v": v, "offsets": offsets, "slopes": slopes, "sinks": sinks}
    options = {"causal": causal, "window": window, "soft_cap": soft_cap, "scale": scale}
    return call_tile_operator(Attention, arrays, out, database, {**options, "log_sum_exp": int(log_sum_exp)})


def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    do: Any,
    out: Any = None,
    *,
    offsets: Any = None,
    slopes: Any = None,
    causal: bool = False,
    window: int = 0,
    soft_cap: float = 0.0,
    scale: float = 0.0,
    database: Source | None = None,
) -> Any:
    """Compute the gradients of attention with respect to queries, keys and values.

    Each sum is computed by a single block, so results are reproducible.

    Args:
        q: (batch, heads, queries, head_size) of f16 or bf16, head sizes up to 128.
        k: (batch, kv_heads, keys, head_size).
        v: Values, of the shape of ``k``.
        o: Result of ``attention``, of the shape of ``q``.
        lse: Second result of ``attention`` with ``log_sum_exp``: (batch, heads, queries) of f32.
        do: Gradient of ``o``.
        out: Arrays for the results. Default: new ones.
        offsets: As in ``attention``; all arrays then have its packed shapes, and ``lse`` is (heads, total).
        slopes: As in ``attention``.
        causal: As in ``attention``.
        window: As in ``attention``.
        soft_cap: As in ``attention``.
        scale: As in ``attention``.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        Gradients dq, dk and dv, of the shapes of ``q``, ``k`` and ``v``. Gradients of keys and values are summed over
        the query heads that share them.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do, "offsets": offsets, "slopes": slopes}
    options = {"causal": causal, "window": window, "soft_cap": soft_cap, "scale": scale}
    return call_tile_operator(AttentionBackward, arrays, out, database, options)


def decode_attention(
    q: Any,
    k: Any,
    v: Any,
    table: Any,
    lengths: Any,
    out: Any = None,
    *,
    k_scale: Any = None,
    v_scale: Any = None,
    scale: float = 0.0,
    order: str = "positions",
    database: Source | None = None,
) -> Any:
    """Compute attention of the newest positions of each sequence over a paged key-value cache.

    Args:
        q: (batch, queries, heads, head_size) of f16 or bf16, with 1 to 8 queries per sequence.
        k: (pages, page, kv_heads, head_size), of q's type or e4m3; the page size is a power of two from 16 to 1024.
        v: Values, of the shape and type of ``k``.
        table: (batch, entries) of int32: the pages of each sequence, in order.
        lengths: (batch,) of int32: number of keys of each sequence, including the new positions.
        out: Array for the result, of q's shape. Default: a new one.
        k_scale: (kv_heads,) of f32, factors of e4m3 keys.
        v_scale: (kv_heads,) of f32, factors of e4m3 values.
        scale: Factor of ``q k^T``; 0 for ``1 / sqrt(head_size)``.
        order: "positions" for the shape of k above, "heads" for (pages, kv_heads, page, head_size).
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or the new array. The result of a query that sees no key is zero.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"q": q, "k": k, "v": v, "table": table, "lengths": lengths, "k_scale": k_scale, "v_scale": v_scale}
    return call_tile_operator(DecodeAttention, arrays, out, database, {"scale": scale, "order": order})
