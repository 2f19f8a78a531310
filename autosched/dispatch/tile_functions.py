"""Operators of language models as functions of arrays. Each is a tile program, tuned like every other operator.

They look up and launch kernels like the functions of ``functions.py``, and raise the same errors.
"""

from __future__ import annotations

from typing import Any

from autosched.dispatch.functions import Source, call_tile_operator
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK


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
    """Compute attention of the newest positions of each sequence over a paged cache.

    Args:
        q: (batch, queries, heads, head_size) of f16 or bf16, with 1 to 8 queries a sequence.
        k: (pages, page, kv_heads, head_size), of q's type or e4m3; the page size is a power of two from 16 to 1024.
        v: The same shapes and types as ``k``.
        table: (batch, entries) of int32: the pages of each sequence, in order.
        lengths: (batch,) of int32: number of keys of each sequence, including the new positions.
        out: Array for the result, of q's shape. Default: a new one.
        k_scale: (kv_heads,) of f32, factors of keys of e4m3.
        v_scale: (kv_heads,) of f32, factors of values of e4m3.
        scale: Factor of ``q k^T``; 0 for ``1 / sqrt(head_size)``.
        order: "positions" for the shape of k above, "heads" for (pages, kv_heads, page, head_size).
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array. Queries that see no key are zero.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"q": q, "k": k, "v": v, "table": table, "lengths": lengths, "k_scale": k_scale, "v_scale": v_scale}
    return call_tile_operator(DecodeAttention, arrays, out, database, {"scale": scale, "order": order})


def quantized_matmul(
    x: Any,
    w: Any,
    scale: Any,
    out: Any = None,
    *,
    zeros: Any = None,
    global_scale: Any = None,
    database: Source | None = None,
) -> Any:
    """Compute ``x @ dequantised(w).T`` with weights of 4 or 8 bits.

    Args:
        x: (m, k) of f16 or bf16.
        w: (n, k / 8) of int32 from ``pack_int4``, or (n, k) of int8 or e4m3; or either from ``pack_weights``.
        scale: (groups, n) of x's type: one per row of w and group of its columns. Scales of e4m3, one per 16 columns,
            mean that w contains e2m1 codes (nvf4).
        out: Array for the result, (m, n). Default: a new one.
        zeros: (groups, n) of uint8, zero points of 4-bit weights. Default: 8.
        global_scale: (1,) of f32, the factor of all weights of nvf4.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, of x's type.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"x": x, "w": w, "scale": scale, "zeros": zeros, "global_scale": global_scale}
    return call_tile_operator(QuantizedMatmul, arrays, out, database, {})


def grouped_matmul(
    x: Any,
    w: Any,
    ends: Any,
    out: Any = None,
    *,
    token: Any = None,
    x_scale: Any = None,
    w_scale: Any = None,
    rows: str = "contiguous",
    activation: str = "none",
    w_order: str = "row",
    database: Source | None = None,
) -> Any:
    """Multiply the rows of each group by the group's own matrix, with group sizes known only on the device.

    Args:
        x: (m, k) of f16, bf16 or e4m3, sorted by groups; (groups, m, k) if ``rows`` is "masked"; or with ``token``
            (tokens, k) in any order.
        w: (groups, k, n), or with ``w_order="col"`` (groups, n, k); 2 n columns for "silu_up", gate before up.
        ends: (groups + 1,) of int32, ascending from 0 to m; or the counts (groups,) of masked rows.
        out: Array for the result, (m, n) or (groups, m, n), bf16 for e4m3. Default: a new one.
        token: (m,) of int32: row of x for each sorted row; -1 for a row of zeros.
        x_scale: f32 scales for e4m3, (m, k / 128): one per row of x and 128 columns.
        w_scale: f32 scales for e4m3, (groups, n / 128, k / 128): one per 128 x 128 elements.
        rows: "contiguous" or "masked".
        activation: "none", or "silu_up" for ``silu(x @ gate) * (x @ up)``.
        w_order: "row" or "col".
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array. Masked rows beyond the count of their group are zero.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    options = {"rows": rows, "activation": activation, "w_order": w_order}
    arrays = {"x": x, "w": w, "ends": ends, "token": token, "x_scale": x_scale, "w_scale": w_scale}
    return call_tile_operator(GroupedMatmul, arrays, out, database, options)


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
        q: (batch, heads, queries, head_size) of f16 or bf16; with ``offsets`` (total, heads, head_size).
        k: (batch, kv_heads, keys, head_size), or (total, kv_heads, head_size).
        v: Like ``k``; the head size may differ.
        out: Array for the result, or a pair of arrays with ``log_sum_exp``. Default: new arrays.
        offsets: (batch + 1,) of int32, ascending from 0 to the total: where sequences of any lengths begin.
        slopes: (heads,) of f32: decrease of a key's score per position of distance (ALiBi).
        sinks: (heads,) of f32, whose exponentials are part of each sum.
        causal: If True, queries see only keys up to their own position; the last query is at the last key.
        window: Maximum number of keys that a query sees; 0 for all.
        soft_cap: Bound of the scores' magnitude, applied with tanh; 0 for none.
        scale: Factor of ``q k^T``; 0 for ``1 / sqrt(head_size)``.
        log_sum_exp: If True, also return the logarithms of the sums: (batch, heads, queries) of f32, or (heads, total).
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``out``, or the new array, or a pair with the logarithms.

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

    One block computes each sum, so results are reproducible.

    Args:
        q: (batch, heads, queries, head_size) of f16 or bf16, head sizes up to 128.
        k: (batch, kv_heads, keys, head_size).
        v: Values, of the shape of ``k``.
        o: Result of ``attention``, of the shape of ``q``.
        lse: Its second result with ``log_sum_exp``: (batch, heads, queries) of f32.
        do: Gradient of ``o``.
        out: Arrays for the results. Default: new ones.
        offsets: As in ``attention``; all arrays then have its packed shapes, and ``lse`` is (heads, total).
        slopes: As in ``attention``.
        causal: As in ``attention``.
        window: As in ``attention``.
        soft_cap: As in ``attention``.
        scale: As in ``attention``.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

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


def rmsnorm_quantize(
    x: Any, residual: Any, weight: Any, out: Any = None, *, eps: float = 1e-5, database: Source | None = None
) -> Any:
    """Add a residual, and compute its RMS norm in 8 bits.

    Args:
        x: (rows, columns) of f16 or bf16.
        residual: The same shape and type as ``x``.
        weight: (columns,) of x's type.
        out: Arrays for the results. Default: new ones.
        eps: Added to the mean of the squares.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        ``x + residual`` of x's type, its norm as e4m3, and the scales (rows,) of f32: the norm is e4m3 times scale.

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
        weight: (head_size,) of x's type, weight of the norm.
        eps: Added to the mean of the squares.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

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
    """Normalise and rotate queries and keys by their positions, and store keys and values in a paged cache in place.

    No two tokens may have the same slot.

    Args:
        qkv: (tokens, heads + 2 kv_heads, head_size) of f16 or bf16: the heads of queries, keys and values.
        positions: (tokens,) of int32.
        table: (length, head_size) of f32: cosines of head_size / 2 angles, then their sines.
        k: (pages, page, kv_heads, head_size), of qkv's type or e4m3, changed in place; the page size is a power of two
            from 16 to 1024.
        v: The same shapes and types as ``k``, changed in place.
        out: Array for the queries. Default: a new one.
        slots: (tokens,) of int32: index of each token into the positions of all pages; -1 is not stored.
        block_table: (sequences, entries) of int32, the pages of each sequence; replaces ``slots``.
        sequence: (tokens,) of int32: row of ``block_table`` of each token; -1 for none.
        q_weight: (head_size,) of qkv's type, weight of the queries' RMS norm. Default: no norm.
        k_weight: The same for keys.
        k_scale: (kv_heads,) of f32, divisors of keys stored as e4m3.
        v_scale: The same for values.
        eps: Added to the mean of the squares.
        order: "positions" for the shape of k above, "heads" for (pages, kv_heads, page, head_size).
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

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
        renormalize: If True, the weights of a token add up to 1; otherwise they are those of the softmax over all
            experts.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        Weights (tokens, top) of f32 and experts (tokens, top) of int32, the largest logit first.

    Raises:
        ValueError: No kernel supports these logits.
        NoSchedule: No kernel can compute this.
    """
    options = {"top": top, "renormalize": int(renormalize)}
    return call_tile_operator(RouterTopK, {"logits": logits}, out, database, options)


def cross_entropy(logits: Any, label: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Compute the loss of each row of logits, and the logarithm of the sum of its exponentials.

    Args:
        logits: (rows, columns) of f32, f16 or bf16.
        label: (rows,) of int32; labels out of range give a loss of 0.
        out: Arrays for the results. Default: new ones.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        Losses and logarithms, (rows,) of f32 each.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return call_tile_operator(CrossEntropy, {"logits": logits, "label": label}, out, database, {})


def cross_entropy_backward(
    logits: Any, label: Any, lse: Any, dloss: Any, out: Any = None, *, database: Source | None = None
) -> Any:
    """Compute the gradients of logits from the gradients of the losses.

    Args:
        logits: (rows, columns) of f32, f16 or bf16.
        label: (rows,) of int32; rows whose label is out of range give zeros.
        lse: (rows,) of f32, the second result of ``cross_entropy``.
        dloss: (rows,) of f32, the gradient of each loss.
        out: Array for the result. Default: a new one.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        Gradients of the shape and type of ``logits``.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"logits": logits, "label": label, "lse": lse, "dloss": dloss}
    return call_tile_operator(CrossEntropyBackward, arrays, out, database, {})


def linear_cross_entropy(x: Any, w: Any, label: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Compute ``cross_entropy`` of ``x @ w.T``, without these logits in memory.

    Args:
        x: (rows, k) of f16 or bf16.
        w: (columns, k) of x's type, as in a linear layer.
        label: (rows,) of int32; labels out of range give a loss of 0.
        out: Arrays for the results. Default: new ones.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        Losses and logarithms of the sums, (rows,) of f32 each.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return call_tile_operator(LinearCrossEntropy, {"x": x, "w": w, "label": label}, out, database, {})


def linear_cross_entropy_dlogits(
    x: Any, w: Any, label: Any, lse: Any, dloss: Any, out: Any = None, *, database: Source | None = None
) -> Any:
    """Compute the gradients of the logits of ``linear_cross_entropy``.

    The result g has ``rows * columns`` elements. To limit it, call this for some rows at a time, and accumulate ``g @
    w`` and ``g.T @ x``, like the gradient of ``torch.ops.autosched.linear_cross_entropy``.

    Args:
        x: (rows, k) of f16 or bf16.
        w: (columns, k) of x's type.
        label: (rows,) of int32; rows whose label is out of range give zeros.
        lse: (rows,) of f32, the second result of ``linear_cross_entropy``.
        dloss: (rows,) of f32, the gradient of each loss.
        out: Array for the result. Default: a new one.
        database: Database for look-ups. Default: that of ``autosched.use``, else AUTOSCHED_DB.

    Returns:
        Gradients, (rows, columns) of x's type.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"x": x, "w": w, "label": label, "lse": lse, "dloss": dloss}
    return call_tile_operator(LinearCrossEntropyDlogits, arrays, out, database, {})
