"""Norms, rotary position embeddings and expert routers, as functions of arrays."""

from __future__ import annotations

from typing import Any

from autosched.dispatch.functions import Source, call_tile_operator
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK


def rmsnorm_quantize(
    x: Any, residual: Any, weight: Any, out: Any = None, *, eps: float = 1e-5, database: Source | None = None
) -> Any:
    """Add a residual, and compute the RMS norm of the sum, quantised to e4m3.

    Args:
        x: (rows, columns) of f16 or bf16.
        residual: Array of the shape and type of ``x``.
        weight: (columns,) of x's type.
        out: Arrays for the results. Default: new ones.
        eps: Added to the mean of the squares.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``x + residual`` of x's type, the norm as e4m3, and f32 scales of shape (rows,). Each value of the norm is the
        e4m3 value times the scale of its row.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return call_tile_operator(
        RmsNormQuantize, {"x": x, "residual": residual, "weight": weight}, out, database, {"eps": eps}
    )


def qk_norm_rope(
    x: Any,
    positions: Any,
    table: Any,
    out: Any = None,
    *,
    weight: Any = None,
    eps: float = 1e-6,
    database: Source | None = None,
) -> Any:
    """Apply rotary position embedding to each head, after its RMS norm if ``weight`` is given.

    Args:
        x: (tokens, heads, head_size) of f16 or bf16.
        positions: (tokens,) of int32.
        table: (length, head_size) of f32: cosines of head_size / 2 angles, then their sines.
        out: Array for the result. Default: a new one.
        weight: (head_size,) of x's type, weight of the RMS norm. Default: no norm.
        eps: Added to the mean of the squares.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or the new array.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"x": x, "positions": positions, "table": table, "weight": weight}
    return call_tile_operator(QkNormRope, arrays, out, database, {"eps": eps})


def qk_norm_rope_append(
    qkv: Any,
    positions: Any,
    table: Any,
    k: Any,
    v: Any,
    out: Any = None,
    *,
    slots: Any = None,
    block_table: Any = None,
    sequence: Any = None,
    q_weight: Any = None,
    k_weight: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    eps: float = 1e-6,
    order: str = "positions",
    database: Source | None = None,
) -> Any:
    """Apply RMS norm and rotary embedding to queries and keys, and store keys and values in a paged cache.

    No two tokens may have the same slot.

    Args:
        qkv: (tokens, heads + 2 kv_heads, head_size) of f16 or bf16: first the heads of queries, then of keys, then of
            values.
        positions: (tokens,) of int32.
        table: (length, head_size) of f32: cosines of head_size / 2 angles, then their sines.
        k: (pages, page, kv_heads, head_size), of qkv's type or e4m3, changed in place; the page size is a power of two
            from 16 to 1024.
        v: Values of the cache, of the shape and type of ``k``, changed in place.
        out: Array for the queries. Default: a new one.
        slots: (tokens,) of int32: slot of each token in the cache, counted over all pages. Tokens with -1 are not
            stored.
        block_table: (sequences, entries) of int32, the pages of each sequence; replaces ``slots``.
        sequence: (tokens,) of int32: each token's row in ``block_table``; -1 for none.
        q_weight: (head_size,) of qkv's type, weight of the queries' RMS norm. Default: no norm.
        k_weight: Weight of the keys' RMS norm, like ``q_weight``.
        k_scale: (kv_heads,) of f32, divisors of keys stored as e4m3.
        v_scale: (kv_heads,) of f32, divisors of values stored as e4m3.
        eps: Added to the mean of the squares.
        order: "positions" for the shape of k above, "heads" for (pages, kv_heads, page, head_size).
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        The queries (tokens, heads, head_size): ``out``, or the new array.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {
        "qkv": qkv, "positions": positions, "table": table, "k": k, "v": v, "slots": slots, "block_table": block_table,
        "sequence": sequence, "q_weight": q_weight, "k_weight": k_weight, "k_scale": k_scale, "v_scale": v_scale,
    }  # fmt: skip
    return call_tile_operator(QkNormRopeAppend, arrays, out, database, {"eps": eps, "order": order})


def router_topk(
    logits: Any, out: Any = None, *, top: int = 8, renormalize: bool = True, database: Source | None = None
) -> Any:
    """Choose the experts of each token.

    Args:
        logits: (tokens, experts) of f32, f16 or bf16, finite.
        out: Arrays for the results. Default: new ones.
        top: Number of experts per token.
        renormalize: If True, the weights of a token add up to 1; otherwise the weights come from the softmax over all
            experts.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        Weights (tokens, top) of f32 and experts (tokens, top) of int32, the largest logit first.

    Raises:
        ValueError: No kernel supports these logits.
        NoSchedule: No kernel can compute this.
    """
    options = {"top": top, "renormalize": int(renormalize)}
    return call_tile_operator(RouterTopK, {"logits": logits}, out, database, options)
