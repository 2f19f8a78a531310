"""``torch.ops.autosched``: operators registered with ``define`` and ``impl``, which is faster than ``custom_op``.

The functions of this module call these operators and have gradients. A backward pass recomputes the formula and
differentiates it. ``torch.compile`` treats each operator as one opaque call. Make a call once before a CUDA graph
captures it, because the first call compiles and loads the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from autosched.dispatch import functions
from autosched.torch import cpu, formulas, host_path
from autosched.torch.plans import PLANS

SCHEMAS = {
    "matmul": '(Tensor a, Tensor b, Tensor? bias=None, str activation="none", str precision="tf32") -> Tensor',
    "matvec": "(Tensor x, Tensor w) -> Tensor",
    "softmax": "(Tensor x) -> Tensor",
    "rmsnorm": "(Tensor x, Tensor weight, float eps=1e-5) -> Tensor",
    "layernorm": "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor",
    "reduce": '(Tensor x, str kind="sum", int axis=-1) -> Tensor',
    "transpose": "(Tensor x) -> Tensor",
}
OPERATORS = tuple(SCHEMAS)

# keep the library alive: its operators would be removed with it
_library = torch.library.Library("autosched", "FRAGMENT")


def _fake_matmul(a: Any, b: Any, bias: Any = None, activation: str = "none", precision: str = "tf32") -> Any:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "matmul takes matrices: use matvec for vectors")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"a {a.shape} and b {b.shape} do not fit together")
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=formulas.product_type(a.dtype))


def _fake_reduce(x: Any, kind: str = "sum", axis: int = -1) -> Any:
    shape = list(x.shape)
    del shape[axis]
    return x.new_empty(shape, dtype=torch.uint32 if kind == "argmax" else x.dtype)


def _fake_like(x: Any, *arguments: Any, **options: Any) -> Any:
    return x.new_empty(x.shape)


_FAKES: dict[str, Callable[..., Any]] = {
    "matmul": _fake_matmul,
    "matvec": lambda x, w: x.new_empty((*x.shape[:-1], w.shape[0])),
    "softmax": _fake_like,
    "rmsnorm": _fake_like,
    "layernorm": _fake_like,
    "reduce": _fake_reduce,
    "transpose": lambda x: x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2])),
}


ON_GPU: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b, bias=None, activation="none", precision="tf32": functions.matmul(
        a, b, bias=bias, activation=activation, precision=precision
    ),
    "matvec": lambda x, w: functions.matvec(x, w),
    "softmax": lambda x: functions.softmax(x),
    "rmsnorm": lambda x, weight, eps=1e-5: functions.rmsnorm(x, weight, eps=eps),
    "layernorm": lambda x, weight, bias, eps=1e-5: functions.layernorm(x, weight, bias, eps=eps),
    "reduce": lambda x, kind="sum", axis=-1: functions.reduce(x, kind=kind, axis=axis),
    "transpose": lambda x: functions.transpose(x),
}


def called(name: str, *arguments: Any) -> host_path.Called:
    """Return the problem and arrays of a call of an operator."""
    plan = PLANS[name](*arguments)
    return host_path.Called(plan.problem, (*plan.operands, "out"))


for _name, _schema in SCHEMAS.items():
    _library.define(_name + _schema)
    host_path.implement(_library, _name, _schema, ON_GPU[_name], partial(called, _name))
    _library.impl(_name, partial(cpu.compute, _name), "CPU")
    torch.library.register_fake(f"autosched::{_name}", _FAKES[_name], lib=_library)


# Call overloads directly: a call through the overload packet has more overhead.
_OVERLOADS = {name: getattr(torch.ops.autosched, name).default for name in OPERATORS}
_MATMUL = _OVERLOADS["matmul"]
_grad_enabled = torch.is_grad_enabled


class _Differentiable(torch.autograd.Function):  # type: ignore[misc] # torch has no types here
    """An operator whose backward pass recomputes the formula and differentiates it.

    A wrapper is used because ``register_autograd`` adds overhead to every call, even if no gradient is needed.
    """

    @staticmethod
    def forward(context: Any, name: str, options: tuple[Any, ...], *tensors: Any) -> Any:
        context.save_for_backward(*(t for t in tensors if t is not None))
        context.passed = [t is not None for t in tensors]
        context.name, context.options = name, options
        return _OVERLOADS[name](*tensors, *options)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        saved = iter(context.saved_tensors)
        tensors: list[Any] = [next(saved).detach() if is_tensor else None for is_tensor in context.passed]
        needed_inputs = [i for i, needed in enumerate(context.needs_input_grad[2:]) if needed]
        with torch.enable_grad():
            for i in needed_inputs:
                tensors[i].requires_grad_()
            result = getattr(formulas, context.name)(*tensors, *context.options)
            results = torch.autograd.grad(result, [tensors[i] for i in needed_inputs], gradient)
        gradients = dict(zip(needed_inputs, results, strict=True))
        return (None, None, *(gradients.get(i) for i in range(len(tensors))))


def _call(name: str, tensors: tuple[Any, ...], *options: Any) -> Any:
    if _grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return _Differentiable.apply(name, options, *tensors)
    return _OVERLOADS[name](*tensors, *options)


def matmul(a: Any, b: Any, bias: Any = None, *, activation: str = "none", precision: str = "tf32") -> Any:
    """Compute ``activation(a @ b + bias)`` with a gradient: see ``autosched.matmul``.

    Args:
        a: Tensor (..., m, k), of a type that ``autosched.matmul`` supports.
        b: Tensor (k, n) or (..., k, n), of a's type.
        bias: Tensor (n,), or None.
        activation: "none" or an activation of ``autosched.matmul``.
        precision: Precision of f32 products: "tf32" or "ieee".

    Returns:
        A new tensor (..., m, n), of the type that ``autosched.matmul`` returns.

    Raises:
        ValueError: Unsupported shapes, types or activation.
    """
    plain = bias is None and activation == "none" and precision == "tf32"
    if plain and not (_grad_enabled() and (a.requires_grad or b.requires_grad)):
        return _MATMUL(a, b)  # fast path: fewer arguments to parse, and no loop as in `_call`
    return _call("matmul", (a, b, bias), activation, precision)


def matvec(x: Any, w: Any) -> Any:
    """Compute ``x @ w.T`` with a gradient, for x (k,) or (m, k) with m up to 16, and w (n, k)."""
    return _call("matvec", (x, w))


def softmax(x: Any) -> Any:
    """Compute the softmax of x along its last axis, with a gradient."""
    return _call("softmax", (x,))


def rmsnorm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """Compute ``x / sqrt(mean(x^2) + eps) * weight`` along the last axis, with a gradient."""
    return _call("rmsnorm", (x, weight), eps)


def layernorm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Compute ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis, with a gradient.

    Args:
        x: (..., columns), of f16, bf16 or f32.
        weight: (columns,), of x's type.
        bias: (columns,), of x's type.
        eps: Added to the variance.

    Returns:
        A new tensor of x's shape and type.

    Raises:
        ValueError: Unsupported shapes or types.
    """
    return _call("layernorm", (x, weight, bias), eps)


def reduce(x: Any, *, kind: str = "sum", axis: int = -1) -> Any:
    """Reduce x along its last or first axis by ``kind``: sum, max, mean, sumsq or argmax."""
    return _call("reduce", (x,), kind, axis)


def transpose(x: Any) -> Any:
    """Return a dense copy of x with its last two axes exchanged, with a gradient."""
    return _call("transpose", (x,))
