"""Gradients of ``cross_entropy`` and ``linear_cross_entropy`` are compared with torch's gradients in float64."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from autosched.torch import cross_entropy_gradient  # noqa: E402

LABEL = [3, 39, -100, 0, 7, 7, 12]


def numbers(*shape: int, dtype: Any = None, seed: int = 0) -> Any:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(dtype or torch.bfloat16).requires_grad_()


def reference_loss(logits: Any, weights: Any) -> Any:
    label = torch.tensor(LABEL)
    return (torch.nn.functional.cross_entropy(logits, label, reduction="none") * weights).sum()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_of_logits(dtype: str) -> None:
    logits, weights = (
        numbers(len(LABEL), 40, dtype=getattr(torch, dtype)),
        numbers(len(LABEL), seed=2).detach().double(),
    )
    loss, _ = torch.ops.autosched.cross_entropy(logits, torch.tensor(LABEL, dtype=torch.int32))
    (loss * weights).sum().backward()
    precise = logits.detach().double().requires_grad_()
    reference_loss(precise, weights).backward()
    torch.testing.assert_close(logits.grad.double(), precise.grad, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 512])
def test_the_gradients_of_a_linear_layer(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that are computed in chunks of rows, and for all rows at once, agree with torch's gradients."""
    monkeypatch.setattr(cross_entropy_gradient, "BYTES", 1)
    monkeypatch.setattr(cross_entropy_gradient, "LEAST_ROWS", rows)
    x, w, weights = numbers(len(LABEL), 16), numbers(40, 16, seed=1), numbers(len(LABEL), seed=2).detach().double()
    loss, _ = torch.ops.autosched.linear_cross_entropy(x, w, torch.tensor(LABEL, dtype=torch.int32))
    (loss * weights).sum().backward()
    precise = [tensor.detach().double().requires_grad_() for tensor in (x, w)]
    reference_loss(precise[0] @ precise[1].T, weights).backward()
    for leaf, exact in zip((x, w), precise, strict=True):
        assert leaf.grad.dtype == torch.bfloat16
        torch.testing.assert_close(leaf.grad.double(), exact.grad, rtol=2e-2, atol=2e-2)


def test_a_frozen_layer_has_no_gradient() -> None:
    x, w = numbers(len(LABEL), 16), numbers(40, 16).detach()
    loss, _ = torch.ops.autosched.linear_cross_entropy(x, w, torch.tensor(LABEL, dtype=torch.int32))
    loss.sum().backward()
    assert x.grad is not None and w.grad is None


def test_the_logarithms_have_no_gradient() -> None:
    """A backward pass through the logarithms must raise an error, rather than silently omit the gradient."""
    logits = numbers(len(LABEL), 40)
    loss, lse = torch.ops.autosched.cross_entropy(logits, torch.tensor(LABEL, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="no gradient"):
        (loss.sum() + lse.sum()).backward()


def test_under_compile() -> None:
    def loss_of(x: Any, w: Any, label: Any) -> Any:
        return torch.ops.autosched.linear_cross_entropy(x, w, label)[0].sum()

    x, w = numbers(len(LABEL), 16), numbers(40, 16, seed=1)
    label = torch.tensor(LABEL, dtype=torch.int32)
    loss_of(x, w, label).backward()
    plain = x.grad.clone()
    x.grad = None
    torch.compile(loss_of, backend="aot_eager")(x, w, label).backward()
    torch.testing.assert_close(x.grad, plain)
