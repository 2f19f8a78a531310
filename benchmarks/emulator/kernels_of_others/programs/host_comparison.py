"""Inputs that a seed names, and results and gradients of kernels against those of torch on the host."""

import torch


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(ours, theirs, *inputs, tolerance):
    """Compare a result to ``tolerance``, and the gradients of its inputs to ten times that."""
    on_host = [x.clone().requires_grad_() for x in inputs]
    on_gpu = [x.to("cuda").requires_grad_() for x in inputs]
    expected, found = theirs(*on_host), ours(*on_gpu)
    torch.testing.assert_close(found.to("cpu"), expected, rtol=tolerance, atol=tolerance)
    upstream = randn(*expected.shape, seed=9)
    expected.backward(upstream)
    found.backward(upstream.to("cuda"))
    for x, copy in zip(on_gpu, on_host, strict=True):
        torch.testing.assert_close(x.grad.to("cpu"), copy.grad, rtol=10 * tolerance, atol=10 * tolerance)
