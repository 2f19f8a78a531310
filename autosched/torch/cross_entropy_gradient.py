"""Gradients of ``torch.ops.autosched.cross_entropy`` and ``linear_cross_entropy``.

The forward pass of each operator also returns the logarithms of the softmax sums. From these logarithms, the backward
pass computes the gradients of the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from autosched.torch import tile_ops
from search_spaces.tile_operators.cross_entropy import CrossEntropy
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy
from search_spaces.tile_operators.tile_problem import TileOperator

BYTES = 2**28  # maximum bytes of logit gradients that a backward pass stores at a time
LEAST_ROWS = 512  # minimum number of rows per matrix product, so that the products are efficient

_ops = torch.ops.autosched


def _of_losses(dloss: Any, dlse: Any) -> Any:
    """Return the gradient of the losses. Raises RuntimeError if the logarithms of the sums require a gradient."""
    if dlse is not None:
        raise RuntimeError("the logarithms of the sums have no gradient: use them within torch.no_grad()")
    return dloss.float().contiguous()


class _DifferentiableCrossEntropy(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """Cross entropy that saves the tensors needed by its backward pass."""

    @staticmethod
    def forward(context: Any, logits: Any, label: Any) -> Any:
        context.set_materialize_grads(False)
        loss, lse = _ops.cross_entropy(logits, label)
        context.save_for_backward(logits, label, lse)
        return loss, lse

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, dloss: Any, dlse: Any) -> Any:
        if dloss is None and dlse is None:
            return None, None
        return _ops.cross_entropy_backward(*context.saved_tensors, _of_losses(dloss, dlse)), None


class _DifferentiableLinearCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """Linear cross entropy. To save memory, the backward pass computes logit gradients for some rows at a time."""

    @staticmethod
    def forward(context: Any, x: Any, w: Any, label: Any) -> Any:
        context.set_materialize_grads(False)
        loss, lse = _ops.linear_cross_entropy(x, w, label)
        context.save_for_backward(x, w, label, lse)
        return loss, lse

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, dloss: Any, dlse: Any) -> Any:
        if dloss is None and dlse is None:
            return None, None, None
        dloss = _of_losses(dloss, dlse)
        x, w, label, lse = context.saved_tensors
        of_x, of_w = context.needs_input_grad[:2]
        dx = torch.empty_like(x) if of_x else None
        dw = torch.zeros(w.shape, dtype=torch.float32, device=w.device) if of_w else None
        step = max(LEAST_ROWS, BYTES // (w.shape[0] * w.element_size()))
        for at in range(0, x.shape[0], step):
            own = slice(at, at + step)
            dlogits = _ops.linear_cross_entropy_dlogits(x[own], w, label[own], lse[own], dloss[own])
            if dx is not None:
                dx[own] = _ops.matmul(dlogits, w)
            if dw is not None:
                dw += _ops.matmul(dlogits.t().contiguous(), x[own]).float()
        return dx, None if dw is None else dw.to(w.dtype), None


def _with_gradient(
    problem: type[TileOperator], forward: Any, differentiable: Callable[..., Any], *arguments: Any, **named: Any
) -> Any:
    tensors, _ = tile_ops.bound(problem, arguments, named)
    inputs = [tensors[name] for name in problem.inputs]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        return differentiable(*inputs)
    with torch._C._AutoDispatchBelowAutograd():
        return forward(*inputs)


for _problem, _function in (
    (CrossEntropy, _DifferentiableCrossEntropy),
    (LinearCrossEntropy, _DifferentiableLinearCrossEntropy),
):
    _call = partial(_with_gradient, _problem, getattr(_ops, _problem.operator), _function.apply)
    tile_ops.library.impl(_problem.operator, _call, "Autograd")
