"""Matmuls with quantised weights, and with one matrix per group of rows, as functions of arrays."""

from __future__ import annotations

from typing import Any

from autosched.dispatch.functions import Source, call_tile_operator
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul


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
        w: (n, k / 8) of int32 from ``pack_int4``, or (n, k) of int8 or e4m3; or the result of ``pack_weights`` for one
            of these.
        scale: (groups, n) of x's type: one per row of w and group of consecutive columns. For nvf4, w contains e2m1
            codes, and the scales are e4m3, one per 16 columns.
        out: Array for the result, (m, n). Default: a new one.
        zeros: (groups, n) of uint8, zero points of 4-bit weights. Default: 8.
        global_scale: (1,) of f32, a factor of all nvf4 weights.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

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
    zeros: Any = None,
    global_scale: Any = None,
    rows: str = "contiguous",
    activation: str = "none",
    w_order: str = "row",
    database: Source | None = None,
) -> Any:
    """Multiply the rows of each group by the group's matrix. The group sizes are read from GPU memory.

    Args:
        x: (m, k) of f16, bf16 or e4m3, sorted by groups. If ``rows`` is "masked", the shape is (groups, m, k). With
            ``token``, the shape is (tokens, k), in any order.
        w: (groups, k, n), or with ``w_order="col"`` (groups, n, k). For "silu_up", there are 2 n columns, gate before
            up. For quantised weights, ``w_order`` is "col", and each matrix is a weight of ``quantized_matmul``:
            (groups, n, k / 8) of int32 from ``pack_int4``, or (groups, n, k) of int8 or e4m3 for x of f16 or bf16. The
            result of ``pack_weights`` for such weights is also accepted.
        ends: (groups + 1,) of int32, ascending from 0 to m: the boundaries of the groups. If ``rows`` is "masked",
            (groups,): the number of used rows of each group.
        out: Array for the result, (m, n) or (groups, m, n), of bf16 if x is e4m3. Default: a new one.
        token: (m,) of int32: row of x for each sorted row; -1 for a row of zeros.
        x_scale: f32 scales for e4m3, (m, k / 128): one per row of x and 128 columns.
        w_scale: f32 scales for e4m3, (groups, n / 128, k / 128): one per 128 x 128 elements. For quantised weights
            (groups, scales, n) of x's type, or of e4m3 for nvf4: one per row of a matrix and group of consecutive
            columns.
        zeros: (groups, scales, n) of uint8, zero points of 4-bit weights. Default: 8.
        global_scale: (groups,) of f32, one factor per matrix, for nvf4.
        rows: "contiguous" or "masked".
        activation: "none", or "silu_up" for ``silu(x @ gate) * (x @ up)``.
        w_order: "row" or "col".
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        ``out``, or the new array. If ``rows`` is "masked", unused rows are zero.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    options = {"rows": rows, "activation": activation, "w_order": w_order}
    arrays = {"x": x, "w": w, "ends": ends, "token": token, "x_scale": x_scale, "w_scale": w_scale}
    arrays |= {"zeros": zeros, "global_scale": global_scale}
    return call_tile_operator(GroupedMatmul, arrays, out, database, options)
