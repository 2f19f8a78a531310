"""Gradients of ``torch.ops.autosched.attention``.

The forward pass also returns the logarithms of the sums, from which ``attention_backward`` computes the gradients of
queries, keys and values.
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


def why_no_gradient(tensors: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """Return why ``attention_backward`` does not compute the gradients of a call; None where it does."""
    others = [name for name in Attention.optional_inputs if name in tensors]
    others += [name for name, usual in Attention.call_options.items() if options[name] != usual]
    without = [name for name in others if name not in AttentionBackward.call_options]
    if without:
        return f"attention with {' and '.join(without)} has no gradient: use it within torch.no_grad()"
    sizes = tensors["q"].shape[-1], tensors["v"].shape[-1]
    if sizes[0] != sizes[1] or sizes[0] > MOST_HEAD or sizes[0] % 16:
        return (
            f"attention has gradients for q and v of one head size, a multiple of 16 up to {MOST_HEAD}, not for "
            f"{sizes[0]} and {sizes[1]}"
        )
    return None


class _DifferentiableAttention(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """Attention that keeps what its backward pass needs."""

    @staticmethod
    def forward(context: Any, options: dict[str, Any], names: tuple[str, ...], *tensors: Any) -> Any:
        given = dict(zip(names, tensors, strict=True))
        context.reason, context.options = why_no_gradient(given, options), options
        context.count = len(tensors)
        if context.reason is not None:
            return _attention(**given, **options)
        out, sums = _attention_with_sums(**given, **options)
        context.save_for_backward(*(given[name] for name in Attention.inputs), out, sums)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Any) -> Any:
        if context.reason is not None:
            raise RuntimeError(context.reason)
        options = {name: context.options[name] for name in AttentionBackward.call_options}
        found = _backward(*context.saved_tensors, gradient.contiguous(), **options)
        wanted = zip(found, context.needs_input_grad[2:], strict=False)
        gradients = [one if needed else None for one, needed in wanted]
        return (None, None, *gradients, *[None] * (context.count - len(gradients)))


def _with_gradient(*arguments: Any, **named: Any) -> Any:
    """Call attention, differentiably where a gradient is wanted."""
    tensors, options = tile_ops.bound(Attention, arguments, named)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        return _DifferentiableAttention.apply(options, tuple(tensors), *tensors.values())
    with torch._C._AutoDispatchBelowAutograd():
        return _attention(**tensors, **options)


tile_ops.library.impl("attention", _with_gradient, "Autograd")
