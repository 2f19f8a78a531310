"""Cross entropy of logits and of linear layers, with gradients, as functions of arrays."""

from __future__ import annotations

from typing import Any

from autosched.dispatch.functions import Source, call_tile_operator
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits


def cross_entropy(logits: Any, label: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Compute the loss of each row of logits, and the logarithm of the row's sum of exponentials.

    Args:
        logits: (rows, columns) of f32, f16 or bf16.
        label: (rows,) of int32; labels out of range give a loss of 0.
        out: Arrays for the results. Default: new ones.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

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
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        Gradients of the shape and type of ``logits``.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"logits": logits, "label": label, "lse": lse, "dloss": dloss}
    return call_tile_operator(CrossEntropyBackward, arrays, out, database, {})


def linear_cross_entropy(x: Any, w: Any, label: Any, out: Any = None, *, database: Source | None = None) -> Any:
    """Compute ``cross_entropy`` of the logits ``x @ w.T``, without storing the logits.

    Args:
        x: (rows, k) of f16 or bf16.
        w: (columns, k) of x's type, as in a linear layer.
        label: (rows,) of int32; labels out of range give a loss of 0.
        out: Arrays for the results. Default: new ones.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        Losses, and logarithms of the sums of exponentials, each (rows,) of f32.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    return call_tile_operator(LinearCrossEntropy, {"x": x, "w": w, "label": label}, out, database, {})


def linear_cross_entropy_dlogits(
    x: Any, w: Any, label: Any, lse: Any, dloss: Any, out: Any = None, *, database: Source | None = None
) -> Any:
    """Compute the gradients of the logits of ``linear_cross_entropy``.

    The result g has ``rows * columns`` elements. To save memory, call this function for some rows at a time: ``g @ w``
    is the gradient of these rows of x, and the sum of all ``g.T @ x`` is the gradient of w.

    Args:
        x: (rows, k) of f16 or bf16.
        w: (columns, k) of x's type.
        label: (rows,) of int32; rows whose label is out of range give zeros.
        lse: (rows,) of f32, the second result of ``linear_cross_entropy``.
        dloss: (rows,) of f32, the gradient of each loss.
        out: Array for the result. Default: a new one.
        database: Database for look-ups. Default: the database set by ``autosched.use``, else by AUTOSCHED_DB.

    Returns:
        Gradients, (rows, columns) of x's type.

    Raises:
        ValueError: Arrays do not fit together, or are on several GPUs.
        NoSchedule: No kernel can compute this.
    """
    arrays = {"x": x, "w": w, "label": label, "lse": lse, "dloss": dloss}
    return call_tile_operator(LinearCrossEntropyDlogits, arrays, out, database, {})
