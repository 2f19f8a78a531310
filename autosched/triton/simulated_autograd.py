"""Autograd on a simulated GPU: gradients, and the ``backward`` methods of the program's autograd functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

# methods that call a program's ``backward``; older versions of torch have only the first method
_METHODS = ("apply", "apply_boxed")


def in_autograd() -> bool:
    """Return True if the caller is torch's own backward code, not the ``backward`` method of an autograd function."""
    node = torch._C._current_autograd_node()
    return node is not None and not isinstance(node, BackwardCFunction)


def backward_calls(entered: Callable[[], AbstractContextManager[Any]]) -> dict[str, Callable[..., Any]]:
    """Return replacements for those methods of ``BackwardCFunction`` that call a program's ``backward``.

    Args:
        entered: Returns a context with the torch modes that a program needs. ``torch.Tensor.backward`` and
            ``torch.autograd.grad`` leave these modes before they run the graph, so the replacements enter them again.
    """

    def entering(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(node: Any, *args: Any) -> Any:
            with entered():
                return call(node, *args)

        return called

    methods = vars(BackwardCFunction)
    return {name: entering(methods[name]) for name in _METHODS if name in methods}
