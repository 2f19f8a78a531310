"""Kernels of liger-kernel, forward and backward, compared with torch."""

# mypy: ignore-errors
import torch
from liger_kernel.ops import (
    LigerCrossEntropyFunction,
    LigerLayerNormFunction,
    LigerRMSNormFunction,
    LigerSiLUMulFunction,
)

ROWS, COLUMNS = 5, 200


def leaf(*shape):
    return torch.randn(*shape, device="cuda").requires_grad_()


def compare(function, reference, *arguments):
    """Compare the result and the gradients of a function with a reference."""
    copies = [argument.detach().clone().requires_grad_() for argument in arguments]
    result, expected = function(*arguments), reference(*copies)
    torch.testing.assert_close(result, expected, atol=2e-5, rtol=2e-5)
    gradient = torch.randn_like(expected)
    result.backward(gradient)
    expected.backward(gradient)
    for argument, copy in zip(arguments, copies, strict=True):
        torch.testing.assert_close(argument.grad, copy.grad, atol=2e-4, rtol=2e-4)


if __name__ == "__main__":
    torch.manual_seed(0)
    functional = torch.nn.functional
    x, weight, bias = leaf(ROWS, COLUMNS), leaf(COLUMNS), leaf(COLUMNS)
    compare(
        lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False, False),
        lambda x, w: functional.rms_norm(x, (COLUMNS,), w, 1e-6),
        x,
        weight,
    )
    compare(
        lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-6),
        lambda x, w, b: functional.layer_norm(x, (COLUMNS,), w, b, 1e-6),
        leaf(ROWS, COLUMNS),
        leaf(COLUMNS),
        bias,
    )
    compare(
        LigerSiLUMulFunction.apply,
        lambda a, b: functional.silu(a) * b,
        leaf(ROWS, COLUMNS),
        leaf(ROWS, COLUMNS),
    )
    target = torch.randint(0, COLUMNS, (ROWS,), device="cuda")
    compare(
        lambda x: LigerCrossEntropyFunction.apply(x * 1.0, target, None)[0],
        lambda x: functional.cross_entropy(x, target),
        leaf(ROWS, COLUMNS),
    )
