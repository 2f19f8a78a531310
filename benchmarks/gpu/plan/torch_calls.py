"""Operators of language models in torch, as calls on arrays of a problem's sizes.

Each function takes the fields of a problem. The arrays exist in several copies, enough that operands do not stay in L2.
A function returns the call, whose argument is the index of a copy, and the number of copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COLD_BYTES = 120 << 20
DEVICE = "cuda"

Call = Callable[[int], Any]
Prepared = tuple[Call, int]


def _copies(*arrays: Any) -> int:
    size = sum(array.numel() * array.element_size() for array in arrays)
    return max(1, COLD_BYTES // size)


def _type(name: str) -> Any:
    import torch

    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[name]


def _drawn(dtype: str, *shape: int) -> Any:
    import torch

    return torch.randn(shape, device=DEVICE, dtype=_type(dtype))


def _several(make: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return several copies of arrays, together too large for the L2 cache."""
    first = make()
    return [first, *(make() for _ in range(_copies(*first) - 1))]


def _gradients(forward: Callable[..., Any], arrays: list[tuple[Any, ...]], of: int) -> Prepared:
    """Return a call that runs only the backward pass.

    Each tuple in ``arrays`` is one copy of the inputs. The backward pass computes the gradients of the first ``of``
    inputs.
    """
    import torch

    held = []
    for each in arrays:
        leaves = [array.requires_grad_() for array in each[:of]]
        result = forward(*each)
        held.append((leaves, result, torch.ones_like(result)))
    return lambda i: torch.autograd.grad(held[i][1], held[i][0], held[i][2], retain_graph=True), len(held)


def _attend(causal: int) -> Callable[..., Any]:
    from torch.nn.functional import scaled_dot_product_attention

    return lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=True)


def _heads(**problem: Any) -> list[tuple[Any, ...]]:
    size = problem["head_size"]
    value_size = problem.get("value_size") or size

    def inputs() -> tuple[Any, ...]:
        rows = (
            (problem["heads"], problem["queries"], size),
            *((problem["kv_heads"], problem["keys"], n) for n in (size, value_size)),
        )
        return tuple(_drawn(problem["dtype"], problem["batch"], *each) for each in rows)

    return _several(inputs)


def attention(**problem: Any) -> Prepared:
    """Prepare attention of whole sequences."""
    arrays, attend = _heads(**problem), _attend(problem["causal"])
    return lambda i: attend(*arrays[i]), len(arrays)


def attention_backward(**problem: Any) -> Prepared:
    """Prepare the gradients of queries, keys and values."""
    return _gradients(_attend(problem["causal"]), _heads(**problem), 3)


def decode_attention(**problem: Any) -> Prepared:
    """Prepare attention of the newest positions to contiguous keys, without a mask."""
    keys = problem["entries"] * problem["page"]
    arrays, attend = _heads(**{**problem, "keys": keys}), _attend(0)
    return lambda i: attend(*arrays[i]), len(arrays)


def int4_matmul(**problem: Any) -> Prepared:
    """Prepare a matmul with 4-bit weights."""
    import torch

    m, n, k, group = (problem[name] for name in ("m", "n", "k", "group"))
    x, scales = _drawn("bf16", m, k), _drawn("bf16", k // group, n, 2)

    def packed() -> tuple[Any, ...]:
        numbers = torch.randint(0, 255, (n, k // 2), device=DEVICE, dtype=torch.uint8)
        return (torch._convert_weight_to_int4pack(numbers, 8),)

    weights = _several(packed)
    return lambda i: torch._weight_int4pack_mm(x, weights[i][0], group, scales), len(weights)


def int8_matmul(**problem: Any) -> Prepared:
    """Prepare a matmul with 8-bit weights and a scale for each column."""
    import torch

    m, n, k = (problem[name] for name in ("m", "n", "k"))
    x, scales = _drawn(problem["dtype"], m, k), _drawn(problem["dtype"], n)
    weights = _several(lambda: (torch.randint(-128, 127, (n, k), device=DEVICE, dtype=torch.int8),))
    return lambda i: torch._weight_int8pack_mm(x, weights[i][0], scales), len(weights)


def scaled_matmul(**problem: Any) -> Prepared:
    """Prepare a matmul in e4m3 with a scale for each row and column."""
    import torch

    m, n, k = (problem[name] for name in ("m", "n", "k"))
    scales = torch.ones(m, 1, device=DEVICE), torch.ones(1, n, device=DEVICE)
    arrays = _several(lambda: tuple(_drawn("bf16", rows, k).to(torch.float8_e4m3fn) for rows in (m, n)))
    return lambda i: torch._scaled_mm(arrays[i][0], arrays[i][1].T, *scales, out_dtype=torch.bfloat16), len(arrays)


def grouped_matmul(**problem: Any) -> Prepared:
    """Prepare a grouped matmul with groups of equal size."""
    import torch

    m, n, k, groups = (problem[name] for name in ("m", "n", "k", "groups"))
    product = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm  # public from torch 2.10
    ends = torch.arange(1, groups + 1, device=DEVICE, dtype=torch.int32) * (m // groups)
    arrays = _several(lambda: (_drawn(problem["dtype"], m, k), _drawn(problem["dtype"], groups, k, n)))
    return lambda i: product(*arrays[i], offs=ends), len(arrays)


def rms_norm(**problem: Any) -> Prepared:
    """Prepare an RMS norm of rows."""
    from torch.nn.functional import rms_norm

    rows, columns = problem["rows"], problem["columns"]
    arrays, weight = _several(lambda: (_drawn(problem["dtype"], rows, columns),)), _drawn(problem["dtype"], columns)
    return lambda i: rms_norm(arrays[i][0], (columns,), weight, problem["eps"]), len(arrays)


def residual_rms_norm(**problem: Any) -> Prepared:
    """Prepare a residual addition followed by an RMS norm."""
    from torch.nn.functional import rms_norm

    shape = problem["rows"], problem["columns"]
    arrays = _several(lambda: tuple(_drawn(problem["dtype"], *shape) for _ in range(2)))
    weight = _drawn(problem["dtype"], shape[1])
    return lambda i: rms_norm(arrays[i][0] + arrays[i][1], shape[1:], weight, problem["eps"]), len(arrays)


def _labels(rows: int, columns: int) -> Any:
    import torch

    return torch.randint(0, columns, (rows,), device=DEVICE)


def _losses(**problem: Any) -> tuple[Callable[..., Any], list[tuple[Any, ...]]]:
    from torch.nn.functional import cross_entropy

    rows, columns = problem["rows"], problem["columns"]
    arrays = _several(lambda: (_drawn(problem["dtype"], rows, columns), _labels(rows, columns)))
    return lambda logits, label: cross_entropy(logits, label, reduction="none"), arrays


def cross_entropy(**problem: Any) -> Prepared:
    """Prepare the loss of each row."""
    forward, arrays = _losses(**problem)
    return lambda i: forward(*arrays[i]), len(arrays)


def cross_entropy_backward(**problem: Any) -> Prepared:
    """Prepare the gradient of the logits."""
    return _gradients(*_losses(**problem), 1)


def linear_cross_entropy(**problem: Any) -> Prepared:
    """Prepare a linear layer with the cross-entropy loss of each row."""
    from torch.nn import functional

    rows, columns, k = (problem[name] for name in ("rows", "columns", "k"))
    arrays = _several(lambda: (_drawn(problem["dtype"], rows, k), _drawn(problem["dtype"], columns, k)))
    label, fused = _labels(rows, columns), getattr(functional, "linear_cross_entropy", None)
    if fused is not None:
        return lambda i: fused(*arrays[i], label, reduction="none"), len(arrays)
    return lambda i: functional.cross_entropy(arrays[i][0] @ arrays[i][1].T, label, reduction="none"), len(arrays)


def router_topk(**problem: Any) -> Prepared:
    """Prepare the choice of experts, and the softmax of their logits."""
    arrays = _several(lambda: (_drawn(problem["dtype"], problem["tokens"], problem["experts"]),))

    def call(i: int) -> Any:
        weight, expert = arrays[i][0].topk(problem["top"], dim=-1)
        return weight.softmax(dim=-1), expert

    return call, len(arrays)


LANGUAGE: dict[str, Callable[..., Prepared]] = {
    function.__name__: function
    for function in (
        *(attention, attention_backward, decode_attention, int4_matmul, int8_matmul, scaled_matmul, grouped_matmul),
        *(rms_norm, residual_rms_norm, cross_entropy, cross_entropy_backward, linear_cross_entropy, router_topk),
    )
}
