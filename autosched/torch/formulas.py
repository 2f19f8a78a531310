"""Formula of each operator in torch. The formulas compute the results for CPU tensors, and gradients.

Half-precision types are computed in f32 and rounded once, as in the kernels. 8-bit integers are accumulated in int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def product_type(kind: Any) -> Any:
    """Return the result type of a matrix product: bf16 for 8-bit floats, int32 for int8, else the operand type."""
    return torch.bfloat16 if kind in _FLOAT8 else torch.int32 if kind is torch.int8 else kind


def matmul(a: Any, b: Any, bias: Any = None, activation: str = "none", precision: str = "tf32") -> Any:
    """Compute ``activation(a @ b + bias)`` with torch's own operators, which Inductor can fuse.

    Args:
        a: (..., m, k).
        b: (k, n), or (..., k, n).
        bias: (n,); None for none.
        activation: Name of an activation, or "none".
        precision: Precision of f32 products; ignored, because it matters only to kernels.

    Returns:
        The product in the operator's result type, accumulated in f32 (int8: in int32).

    Raises:
        ValueError: An unknown activation.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: use one of {', '.join(_ACTIVATIONS)}")
    exact = torch.int32 if a.dtype is torch.int8 else torch.float32
    result = a.to(exact) @ b.to(exact)
    if bias is not None:
        result = result + bias.to(exact)
    return _ACTIVATIONS[activation](result).to(product_type(a.dtype))


def matvec(x: Any, w: Any) -> Any:
    """Compute ``x @ w.T``."""
    return (x.float() @ w.float().T).to(x.dtype)


def softmax(x: Any) -> Any:
    """Compute the softmax along the last axis."""
    return torch.softmax(x.float(), -1).to(x.dtype)


def rmsnorm(x: Any, weight: Any, eps: float = 1e-5) -> Any:
    """Compute ``x / sqrt(mean(x^2) + eps) * weight`` along the last axis."""
    return functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(x.dtype)


def layernorm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """Compute ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis, in f32.

    Args:
        x: (..., columns).
        weight: (columns,).
        bias: (columns,).
        eps: Added to the variance.

    Returns:
        A tensor with the shape and type of ``x``.
    """
    return functional.layer_norm(x.float(), (x.shape[-1],), weight.float(), bias.float(), eps).to(x.dtype)


def reduce(x: Any, kind: str = "sum", axis: int = -1) -> Any:
    """Reduce x along an axis by ``kind``; ``argmax`` gives u32. Raises ValueError for an unknown kind."""
    if kind == "argmax":
        return x.argmax(axis).to(torch.uint32)
    wide = x.float()
    if kind == "max":
        return wide.amax(axis).to(x.dtype)
    sums = {"sum": wide.sum, "mean": wide.mean, "sumsq": wide.square().sum}
    if kind not in sums:
        raise ValueError(f"unknown kind {kind!r}: use one of max, argmax, {', '.join(sums)}")
    return sums[kind](axis).to(x.dtype)


def transpose(x: Any) -> Any:
    """Return a dense copy of x with its last two axes exchanged."""
    return x.transpose(-1, -2).clone(memory_format=torch.contiguous_format)
