"""Operators of flash-linear-attention against its own definitions in torch. It does not load with Triton 3.9."""

import sys

import first_configuration  # noqa: F401

# isort: split
import torch
import torch.nn.functional as F
from fla.modules.l2norm import l2norm
from fla.modules.layernorm import layer_norm as normed_layer
from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.gated_delta_rule.fused_recurrent import fused_recurrent_gated_delta_rule
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.hgrn import chunk_hgrn, fused_recurrent_hgrn
from fla.ops.hgrn.naive import naive_recurrent_hgrn
from fla.ops.linear_attn import fused_recurrent_linear_attn
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

LENGTH, HEADS, WIDTH = 64, 1, 32


def _randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to("cuda")


def _inputs():
    """Return queries, keys of length 1, values, gates in logarithms, and rates."""
    q, k, v = (_randn(1, LENGTH, HEADS, WIDTH, seed=n) for n in range(3))
    gates = F.logsigmoid(_randn(1, LENGTH, HEADS, WIDTH, seed=3))
    return q, F.normalize(k, dim=-1), v, gates, torch.sigmoid(_randn(1, LENGTH, HEADS, seed=4))


def _same(found, expected):
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=5e-3)


def recurrent_gated_linear_attention():
    q, k, v, g, _ = _inputs()
    _same(fused_recurrent_gla(q, k, v, gk=g)[0], naive_recurrent_gla(q, k, v, g)[0])


def chunked_gated_linear_attention():
    q, k, v, g, _ = _inputs()
    _same(chunk_gla(q, k, v, g)[0], naive_recurrent_gla(q, k, v, g)[0])


def recurrent_linear_attention():
    q, k, v, _, _ = _inputs()
    _same(
        fused_recurrent_linear_attn(q, k, v, normalize=False)[0],
        naive_recurrent_linear_attn(q, k, v, normalize=False)[0],
    )


def recurrent_simple_gated_attention():
    q, k, v, g, _ = _inputs()
    found = fused_recurrent_simple_gla(q, k, v, g=g[..., 0])[0]
    _same(found, naive_recurrent_simple_gla(q, k, v, g[..., 0])[0])


def chunked_simple_gated_attention():
    q, k, v, g, _ = _inputs()
    found = chunk_simple_gla(q, k, v, g=g[..., 0])[0]
    _same(found, naive_recurrent_simple_gla(q, k, v, g[..., 0])[0])


def recurrent_delta_rule():
    q, k, v, _, beta = _inputs()
    expected = delta_rule_recurrence(*(x.transpose(1, 2) for x in (q, k, v, beta)))[0].transpose(1, 2)
    _same(fused_recurrent_delta_rule(q, k, v, beta)[0], expected)


def chunked_delta_rule():
    q, k, v, _, beta = _inputs()
    expected = delta_rule_recurrence(*(x.transpose(1, 2) for x in (q, k, v, beta)))[0].transpose(1, 2)
    found = chunk_delta_rule(*(x.bfloat16() for x in (q, k, v, beta)))[0]
    torch.testing.assert_close(found.float(), expected, rtol=5e-2, atol=5e-2)


def recurrent_gated_delta_rule():
    q, k, v, g, beta = _inputs()
    found = fused_recurrent_gated_delta_rule(q, k, v, g=g[..., 0], beta=beta)[0]
    _same(found, naive_recurrent_gated_delta_rule(q, k, v, beta, g[..., 0])[0])


def recurrent_gates():
    x, g = _randn(1, LENGTH, WIDTH), F.logsigmoid(_randn(1, LENGTH, WIDTH, seed=1))
    _same(fused_recurrent_hgrn(x, g)[0], naive_recurrent_hgrn(x, g)[0])


def chunked_gates():
    x, g = _randn(1, LENGTH, WIDTH), F.logsigmoid(_randn(1, LENGTH, WIDTH, seed=1))
    _same(chunk_hgrn(x, g)[0], naive_recurrent_hgrn(x, g)[0])


def norm_of_length_one():
    x = _randn(6, 100)
    _same(l2norm(x), F.normalize(x, dim=-1))


def layer_norm():
    x, w, b = _randn(6, 100), _randn(100, seed=1), _randn(100, seed=2)
    _same(normed_layer(x, w, b), F.layer_norm(x, (100,), w, b))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
