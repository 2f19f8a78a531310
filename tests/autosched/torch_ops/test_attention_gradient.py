"""Gradients of ``torch.ops.autosched.attention``, eager and under ``torch.compile``."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

import autosched.torch  # noqa: E402, F401  # defines the operators


def attend(q: Any, k: Any, v: Any) -> Any:
    return torch.ops.autosched.attention(q, k, v, causal=True)


def tensors() -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(2, heads, 11, 16).bfloat16().requires_grad_() for heads in (4, 2, 2)]


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_agree_with_torch(compiled: bool) -> None:
    function = torch.compile(attend, backend="aot_eager", fullgraph=True) if compiled else attend
    leaves, gradient = tensors(), torch.randn(2, 4, 11, 16).bfloat16()
    actual = torch.autograd.grad(function(*leaves), leaves, gradient)
    exact = [t.detach().float().requires_grad_() for t in leaves]
    keys, values = (t.repeat_interleave(2, 1) for t in exact[1:])
    out = torch.nn.functional.scaled_dot_product_attention(exact[0], keys, values, is_causal=True)
    for one, other in zip(actual, torch.autograd.grad(out, exact, gradient.float()), strict=True):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one.float(), other, rtol=0.02, atol=0.05)


def test_only_requested_gradients_are_computed() -> None:
    q, k, v = tensors()
    attend(q, k.detach(), v).sum().backward()  # a broadcast gradient, whose elements share one address
    assert (q.grad is None, k.grad is None, v.grad is None) == (False, True, False)
    assert not attend(q.detach(), k.detach(), v.detach()).requires_grad
    with torch.no_grad():
        assert not attend(q, k, v).requires_grad


def exact(q: Any, k: Any, v: Any, ends: list[int], sinks: Any, slopes: Any, soft_cap: float) -> Any:
    """Compute causal attention of packed sequences in f32, as a reference."""
    results = []
    for first, last in itertools.pairwise(ends):
        rows = [x[first:last].transpose(0, 1) for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
        scores = soft_cap * torch.tanh(rows[0] @ rows[1].transpose(1, 2) * q.shape[2] ** -0.5 / soft_cap)
        position = torch.arange(last - first)
        scores = scores + slopes[:, None, None] * (position - position[:, None])
        scores = scores.masked_fill(position > position[:, None], -torch.inf)
        scores = torch.cat((scores, sinks[:, None, None].expand(-1, last - first, 1)), -1)
        results.append((scores.softmax(-1)[..., :-1] @ rows[2]).transpose(0, 1))
    return torch.cat(results)


@pytest.mark.parametrize("compiled", [False, True])
def test_packed_sequences_with_sinks_slopes_and_a_soft_cap(compiled: bool) -> None:
    torch.manual_seed(1)
    ends = [0, 7, 7, 19]
    leaves = [torch.randn(19, heads, 16).bfloat16().requires_grad_() for heads in (4, 2, 2)]
    sinks, slopes = torch.randn(4, requires_grad=True), torch.tensor([0.5, 0.25, 0.125, 0.0625])
    offsets = torch.tensor(ends, dtype=torch.int32)

    def attended(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        return torch.ops.autosched.attention(
            q, k, v, offsets=offsets, slopes=slopes, sinks=sinks, soft_cap=2.0, causal=True
        )

    function = torch.compile(attended, backend="aot_eager", fullgraph=True) if compiled else attended
    gradient = torch.randn(19, 4, 16).bfloat16()
    actual = torch.autograd.grad(function(*leaves, sinks), [*leaves, sinks], gradient)
    floats = [t.detach().float().requires_grad_() for t in (*leaves, sinks)]
    expected = torch.autograd.grad(exact(*floats[:3], ends, floats[3], slopes, 2.0), floats, gradient.float())
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.02, atol=0.06)


@pytest.mark.parametrize(
    ("options", "size"),
    [({"slopes": torch.zeros(4, requires_grad=True)}, 16), ({"causal": True}, 24)],
    ids=["slopes", "head size"],
)
def test_without_a_gradient_the_forward_pass_still_runs(options: dict[str, Any], size: int) -> None:
    q = torch.randn(1, 4, 5, size).bfloat16().requires_grad_()
    out = torch.ops.autosched.attention(q, q, q, **options)
    with pytest.raises(RuntimeError, match="gradient"):
        out.sum().backward()
