"""Attention of packed sequences of any lengths; offsets give the start of each sequence.

Run: autosched tune --program examples/programs/variable_length_attention.py --size h=16 --size g=4
    --size total=8192 --size d=128 --size ends=9
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")


@program(
    q=Input("h total d", "f16"), k=Input("g total d", "f16"), v=Input("g total d", "f16"),
    offsets=Input("ends", "i32"), o=Output("h total d", "f16"),
)  # fmt: skip
def variable_length_attention(p, q, k, v, offsets, o):
    """softmax(q k^T / sqrt(d)) v within each sequence, where a query sees the keys up to its position"""
    (h, total, d), g = q.shape, k.shape[0]
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64, 128))
    sequence, head, tile = p.blocks((offsets.shape[0] - 1, h, total), (1, 1, bm))
    begin, end = (p.load_scalar(offsets, sequence + at, high=total, ordered=True) for at in (0, 1))
    i = p.minimum(begin + tile, total)
    query = p.load(p.window(q[head], (i, 0), (bm, d)))
    top, sums, acc = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1))), p.state(p.zeros((bm, d)))
    scale = 1.4426950408889634 / d**0.5
    # 1 if the block has a query; 0 if the block is after the end of the sequence
    any_query = p.minimum(p.maximum(end - i, 0), 1)
    last = p.minimum(p.minimum(i + bm, end), begin + any_query * total)
    for j in p.steps(last, bn, first=begin):
        keys, values = (p.window(t[head // (h // g)], (j, 0), (bn, d)) for t in (k, v))
        z = p.mma(query, p.transpose(p.load(keys)))
        seen = (p.columns(j, bn) < end) & (p.columns(j, bn) <= p.rows(i, bm))
        z = p.where(seen, z, -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
        centre = p.where(peak == -INFINITY, 0.0, peak * scale)
        e, fade = p.exp2(z * scale - centre), p.exp2(top * scale - centre)
        sums.set(sums * fade + p.reduction("add", e, dim=1))
        acc.set(p.mma(e.cast("f16"), p.load(values), acc * fade))
        top.set(peak)
    p.store((acc / sums).cast("f16"), p.window(o[head], (i, 0), (bm, d)), rows_below=end)
