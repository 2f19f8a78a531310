"""Gradients of ``torch.ops.autosched.attention``.

The forward pass also returns the logarithms of the softmax sums. From these, ``attention_backward`` computes the
gradients of queries, keys and values. The gradients of sinks are computed in torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from autosched.torch import tile_ops
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import MOST_HEAD, AttentionBackward

_attention = torch.ops.autosched.attention
_attention_with_sums = torch.ops.autosched.attention_with_sums
_backward = torch.ops.autosched.attention_backward


def why_no_gradient(tensors: Mapping[str, Any]) -> str | None:
    """Return why ``attention_backward`` cannot compute the gradients of a call; None if it can."""
    if "slopes" in tensors and tensors["slopes"].requires_grad:
        return "attention has no gradient with respect to slopes: detach them"
    sizes = tensors["q"].shape[-1], tensors["v"].shape[-1]
    if sizes[0] != sizes[1] or sizes[0] > MOST_HEAD or sizes[0] % 16:
        return (
            f"the gradient of attention needs equal head sizes of q and v, a multiple of 16 up to {MOST_HEAD}, not "
            f"{sizes[0]} and {sizes[1]}"
        )
    return None


def _of_sinks(sinks: Any, out: Any, sums: Any, gradient: Any, packed: bool) -> Any:
    """Return the gradient of the sinks. The weight of a sink in a softmax is exp(sink - logarithm of the sum)."""
    # shape (batch, heads, queries); for packed sequences (queries, heads)
    of_result = (out.float() * gradient.float()).sum(-1)
    of_result = of_result.T if packed else of_result
    share = torch.exp(sinks[:, None] - sums) * of_result
    return -(share.sum(1) if packed else share.sum((0, 2)))


class _DifferentiableAttention(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """Attention that saves the tensors needed by its backward pass."""

    @staticmethod
    def forward(context: Any, options: dict[str, Any], names: tuple[str, ...], *tensors: Any) -> Any:
        """Compute attention. Save inputs, results and options, or the reason why no gradient is possible."""
        by_name = dict(zip(names, tensors, strict=True))
        context.reason, context.options, context.names = why_no_gradient(by_name), options, names
        if context.reason is not None:
            return _attention(**by_name, **options)
        out, sums = _attention_with_sums(**by_name, **options)
        context.save_for_backward(*tensors, out, sums)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Any) -> Any:
        """Compute the gradients. Raises RuntimeError if ``forward`` saved a reason why no gradient is possible."""
        if context.reason is not None:
            raise RuntimeError(context.reason)
        *tensors, out, sums = context.saved_tensors
        by_name, gradient = dict(zip(context.names, tensors, strict=True)), gradient.contiguous()
        is_needed = dict(zip(context.names, context.needs_input_grad[2:], strict=True))
        gradients: dict[str, Any] = {}
        if any(is_needed[name] for name in Attention.inputs):
            options = {name: context.options[name] for name in AttentionBackward.call_options}
            more = {name: by_name[name] for name in AttentionBackward.optional_inputs if name in by_name}
            inputs = [by_name[name] for name in Attention.inputs]
            gradients = dict(
                zip(Attention.inputs, _backward(*inputs, out, sums, gradient, **more, **options), strict=True)
            )
        if is_needed.get("sinks"):
            gradients["sinks"] = _of_sinks(by_name["sinks"], out, sums, gradient, "offsets" in by_name)
        return (None, None, *(gradients.get(name) if needed else None for name, needed in is_needed.items()))


def _with_gradient(*arguments: Any, **named: Any) -> Any:
    """Call attention. If an argument requires a gradient, autograd records the call."""
    tensors, options = tile_ops.bound(Attention, arguments, named)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        return _DifferentiableAttention.apply(options, tuple(tensors), *tensors.values())
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(**tensors, **options)


tile_ops.library.impl("attention", _with_gradient, "Autograd")
