"""Operators of Liger-Kernel, forward and backward, against torch."""

import sys

import torch
import torch.nn.functional as F
from liger_kernel import ops

ROWS, COLUMNS = 6, 200


def _randn(*shape, requires_grad=True, seed=0):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made.to("cuda").requires_grad_(requires_grad)


def _same(ours, theirs, *inputs, tolerance=2e-5):
    """Compare results, and the gradients of inputs. ``ours`` and ``theirs`` take the inputs, or copies of them."""
    copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    expected = theirs(*copies)
    found = ours(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=tolerance)
    if not expected.requires_grad:
        return
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9)).to(expected.device)
    expected.backward(upstream)
    found.backward(upstream.clone())
    for x, copy in zip(inputs, copies, strict=True):
        if x.requires_grad:
            torch.testing.assert_close(x.grad, copy.grad, rtol=1e-4, atol=10 * tolerance)


def rms_norm():
    _same(
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
        _randn(ROWS, COLUMNS), _randn(COLUMNS, seed=1),
    )  # fmt: skip


def layer_norm():
    _same(
        lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-6),
        lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b, 1e-6),
        _randn(ROWS, COLUMNS), _randn(COLUMNS, seed=1), _randn(COLUMNS, seed=2),
    )  # fmt: skip


def group_norm():
    _same(
        lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 6, 2, 1e-6),
        lambda x, w, b: F.group_norm(x, 2, w, b, 1e-6),
        _randn(2, 6, 40), _randn(6, seed=1), _randn(6, seed=2),
    )  # fmt: skip


def fused_add_rms_norm():
    _same(
        lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False)[0],
        lambda x, r, w: (x + r) * torch.rsqrt((x + r).pow(2).mean(-1, keepdim=True) + 1e-6) * w,
        _randn(ROWS, COLUMNS), _randn(ROWS, COLUMNS, seed=3), _randn(COLUMNS, seed=1),
    )  # fmt: skip


def modulated_rms_norm():
    _same(
        lambda x, w, s, t: ops.LigerModulatedRMSNormFunction.apply(x, w, s, t, 1e-6, 0.0, "llama", False),
        lambda x, w, s, t: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w * (1 + s) + t,
        _randn(ROWS, COLUMNS), _randn(COLUMNS, seed=1), _randn(ROWS, COLUMNS, seed=2), _randn(ROWS, COLUMNS, seed=3),
    )  # fmt: skip


def dynamic_tanh():
    _same(
        ops.LigerDyTFunction.apply,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        _randn(ROWS, COLUMNS), _randn(1, seed=1), _randn(COLUMNS, seed=2), _randn(COLUMNS, seed=3),
    )  # fmt: skip


def gated_gelu():
    _same(
        ops.LigerGELUMulFunction.apply,
        lambda a, b: F.gelu(a, approximate="tanh") * b,
        _randn(ROWS, COLUMNS), _randn(ROWS, COLUMNS, seed=1),
    )  # fmt: skip


def gated_silu():
    _same(
        ops.LigerSiLUMulFunction.apply,
        lambda a, b: F.silu(a) * b,
        _randn(ROWS, COLUMNS), _randn(ROWS, COLUMNS, seed=1),
    )  # fmt: skip


def fused_gate_and_up():
    _same(
        ops.LigerFusedGateUpSiLUMulFunction.apply,
        lambda y: F.silu(y.chunk(2, -1)[0]) * y.chunk(2, -1)[1],
        _randn(ROWS, 2 * COLUMNS),
    )


def squared_relu():
    _same(ops.LigerReLUSquaredFunction.apply, lambda x: F.relu(x) ** 2, _randn(ROWS, COLUMNS))


def softmax():
    _same(ops.LigerSoftmaxFunction.apply, lambda x: torch.softmax(x, -1), _randn(ROWS, COLUMNS))


def sparsemax():
    def reference(x):
        s, _ = torch.sort(x, -1, descending=True)
        sums = s.cumsum(-1)
        k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        size = (1 + k * s > sums).sum(-1, keepdim=True)
        threshold = (sums.gather(-1, size - 1) - 1) / size
        return torch.clamp(x - threshold, min=0)

    _same(lambda x: ops.LigerSparsemaxFunction.apply(x, -1), reference, _randn(ROWS, COLUMNS))


def cross_entropy():
    target = torch.tensor([3, 199, 0, -100, 77, 12]).to("cuda")
    _same(
        lambda x: ops.LigerCrossEntropyFunction.apply(x, target, None)[0],
        lambda x: F.cross_entropy(x, target),
        _randn(ROWS, COLUMNS),
    )


def kl_divergence():
    target = torch.softmax(_randn(ROWS, COLUMNS, requires_grad=False, seed=5), -1)
    _same(
        lambda x: ops.LigerKLDivLossFunction.apply(x, target, "batchmean"),
        lambda x: F.kl_div(x, target, reduction="batchmean"),
        torch.log_softmax(_randn(ROWS, COLUMNS, requires_grad=False), -1).requires_grad_(),
    )


def jensen_shannon():
    target = torch.log_softmax(_randn(ROWS, COLUMNS, requires_grad=False, seed=5), -1)

    def reference(x):
        m = torch.log(0.5 * torch.exp(x) + 0.5 * torch.exp(target))
        return 0.5 * F.kl_div(m, target, reduction="batchmean", log_target=True) + 0.5 * F.kl_div(
            m, x, reduction="batchmean", log_target=True
        )

    x = torch.log_softmax(_randn(ROWS, COLUMNS, requires_grad=False), -1).requires_grad_()
    _same(lambda x: ops.LigerJSDFunction.apply(x, target), reference, x)


def total_variation():
    target = torch.softmax(_randn(ROWS, COLUMNS, requires_grad=False, seed=5), -1)
    _same(
        lambda x: ops.LigerTVDLossFunction.apply(x, target, None, "batchmean"),
        lambda x: 0.5 * (x - target).abs().sum() / ROWS,
        torch.softmax(_randn(ROWS, COLUMNS, requires_grad=False), -1).requires_grad_(),
    )


def rotary_embedding():
    heads, length, dim = 4, 5, 32
    angle = torch.arange(length)[:, None] / 100 ** (torch.arange(dim // 2) / (dim // 2))
    cos, sin = (f(torch.cat((angle, angle), -1)).to("cuda")[None] for f in (torch.cos, torch.sin))

    def turned(x):
        half = torch.cat((-x[..., dim // 2 :], x[..., : dim // 2]), -1)
        return x * cos[:, None] + half * sin[:, None]

    _same(
        lambda q, k: torch.cat([*ops.LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)], 1),
        lambda q, k: torch.cat([turned(q), turned(k)], 1),
        _randn(2, heads, length, dim), _randn(2, heads, length, dim, seed=1),
    )  # fmt: skip


def polynomial_norm():
    def normed(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    _same(
        lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        lambda x, w, b: w[0] * normed(x**3) + w[1] * normed(x**2) + w[2] * normed(x) + b,
        _randn(ROWS, COLUMNS), _randn(3, seed=1), _randn(seed=2), tolerance=1e-4,
    )  # fmt: skip


def fused_linear_cross_entropy():
    target = torch.tensor([3, 99, 0, -100, 77, 12]).to("cuda")
    _same(
        lambda x, w: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, target)[0],
        lambda x, w: F.cross_entropy(x @ w.t(), target),
        _randn(ROWS, 32), _randn(100, 32, seed=1),
    )  # fmt: skip


def attention_residual():
    v, q, w = _randn(3, 2, 4, 64), _randn(64, seed=1), _randn(64, seed=2)

    def reference(v, q, w):
        k = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * w
        return (torch.softmax((k * q).sum(-1), 0)[..., None] * v).sum(0)

    _same(lambda v, q, w: ops.LigerAttnResFunction.apply(v, q, w, 1e-6), reference, v, q, w)


def multi_token_attention():
    length = 8
    mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1).to("cuda")

    def reference(s, w):
        p = torch.softmax(s.masked_fill(mask, -1e9), -1)
        return F.conv2d(p, w, padding=1).masked_fill(mask, 0.0)

    _same(
        lambda s, w: ops.LigerMultiTokenAttentionFunction.apply(s, w, None, 1, 1),
        reference, _randn(2, 2, length, length), _randn(2, 2, 3, 3, seed=1),
    )  # fmt: skip


def neighborhood_attention():
    q, k, v = (_randn(1, 2, 16, 32, seed=n) for n in range(3))
    near = (torch.arange(16)[:, None] - torch.arange(16)[None]).abs().le(1).to("cuda")

    def reference(q, k, v):
        s = (q @ k.transpose(-1, -2) / 32**0.5).masked_fill(~near, float("-inf"))
        return torch.softmax(s, -1) @ v

    _same(
        lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 3, 1),
        reference,
        q,
        k,
        v,
        tolerance=1e-2,  # products in tf32
    )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
