"""Forward pass of attention, softmax(q k^T / sqrt(d)) v: causal or not, with grouped queries, for any length.

Run: autosched tune --program examples/programs/attention.py:full_attention
    --size h=16 --size g=16 --size s=4096 --size d=128
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")


def forward(p, q, k, v, o, causal, kind):
    """Define the body of all variants. ``h`` heads of q share ``g`` heads of k and v."""
    (h, s, d), g = q.shape, k.shape[0]
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64, 128))
    head, i = p.blocks((h, s), (1, bm))
    query = p.load(p.window(q[head], (i, 0), (bm, d)))
    keys, values = (p.window(t[head // (h // g)], (0, 0), (bn, d)) for t in (k, v))
    top, total = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1)))
    acc = p.state(p.zeros((bm, d)))
    scale = 1.4426950408889634 / d**0.5
    for j in p.steps(p.minimum(s, i + bm) if causal else s, bn):
        z = p.mma(query, p.transpose(p.load(keys)))
        seen = p.columns(j, bn) < s
        if causal:
            seen = seen & (p.columns(j, bn) <= p.rows(i, bm))
        z = p.where(seen, z, -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
        centre = p.where(peak == -INFINITY, 0.0, peak * scale)
        e, fade = p.exp2(z * scale - centre), p.exp2(top * scale - centre)
        total.set(total * fade + p.reduction("add", e, dim=1))
        acc.set(p.mma(e.cast(kind), p.load(values), acc * fade))
        top.set(peak)
        keys.move(bn, 0)
        values.move(bn, 0)
    p.store((acc / total).cast(kind), p.window(o[head], (i, 0), (bm, d)))


def arrays(kind):
    of_keys = Input("g s d", kind)
    return {"q": Input("h s d", kind), "k": of_keys, "v": of_keys, "o": Output("h s d", kind)}


@program(**arrays("f16"))
def full_attention(p, q, k, v, o):
    """softmax(q k^T / sqrt(d)) v"""
    forward(p, q, k, v, o, False, "f16")


@program(**arrays("f16"))
def causal_attention(p, q, k, v, o):
    """softmax(q k^T / sqrt(d)) v, where a query sees only the keys up to its own position"""
    forward(p, q, k, v, o, True, "f16")


@program(**arrays("bf16"))
def causal_attention_bf16(p, q, k, v, o):
    """softmax(q k^T / sqrt(d)) v in bf16, where a query sees only the keys up to its own position"""
    forward(p, q, k, v, o, True, "bf16")
