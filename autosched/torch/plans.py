"""Derive the plan of an operator call from its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autosched.dispatch import call_signature
from autosched.dispatch.call_signature import ArraySpec, CallPlan, MatmulOptions


def facts(tensor: Any) -> ArraySpec:
    """Return shape, strides and type of a tensor, from which plans are derived."""
    kind = str(tensor.dtype).removeprefix("torch.")
    return ArraySpec(tuple(tensor.shape), tuple(tensor.stride()), kind, int(tensor.element_size()))


def _matmul(a: Any, b: Any, bias: Any = None, activation: str = "none", precision: str = "tf32") -> CallPlan:
    added = None if bias is None else facts(bias)
    return call_signature.matmul_plan(facts(a), facts(b), added, options=MatmulOptions(activation, precision))


PLANS: Mapping[str, Callable[..., CallPlan]] = {
    "matmul": _matmul,
    "matvec": lambda x, w: call_signature.matvec_plan(facts(x), facts(w), out=None, dtype=None),
    "softmax": lambda x: call_signature.softmax_plan(facts(x), out=None, dtype=None),
    "rmsnorm": lambda x, weight, eps=1e-5: call_signature.rmsnorm_plan(
        facts(x), facts(weight), out=None, eps=eps, dtype=None
    ),
    "layernorm": lambda x, weight, bias, eps=1e-5: call_signature.layernorm_plan(
        facts(x), facts(weight), facts(bias), out=None, eps=eps, dtype=None
    ),
    "reduce": lambda x, kind="sum", axis=-1: call_signature.reduce_plan(
        facts(x), out=None, kind=kind, axis=axis, dtype=None
    ),
    "transpose": lambda x: call_signature.transpose_plan(facts(x), out=None),
}
"""Function per operator that returns the plan of a call. Raises ValueError for calls that no kernel supports."""
