"""Attention in which a query sees a window of keys that ends at its position. Earlier blocks of keys are skipped.

Run: autosched tune --program examples/programs/sliding_window.py --size h=16 --size s=8192 --size d=128
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")
WINDOW = 1024  # number of keys in the window, which ends at the query's position


@program(q=Input("h s d", "f16"), k=Input("h s d", "f16"), v=Input("h s d", "f16"), o=Output("h s d", "f16"))
def sliding_window(p, q, k, v, o):
    """softmax(q k^T / sqrt(d)) v, where a query sees the 1,024 keys that end at its position"""
    h, s, d = q.shape
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64, 128))
    head, i = p.blocks((h, s), (1, bm))
    query = p.load(p.window(q[head], (i, 0), (bm, d)))
    top, total = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1)))
    acc = p.state(p.zeros((bm, d)))
    scale = 1.4426950408889634 / d**0.5
    first = p.maximum(i - (WINDOW - 1), 0) // bn * bn
    for j in p.steps(p.minimum(s, i + bm), bn, first=first):
        z = p.mma(query, p.transpose(p.load(p.window(k[head], (j, 0), (bn, d)))))
        rows, columns = p.rows(i, bm), p.columns(j, bn)
        z = p.where((columns < s) & (columns <= rows) & (rows - columns < WINDOW), z, -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
        centre = p.where(peak == -INFINITY, 0.0, peak * scale)
        e, fade = p.exp2(z * scale - centre), p.exp2(top * scale - centre)
        total.set(total * fade + p.reduction("add", e, dim=1))
        acc.set(p.mma(e.cast("f16"), p.load(p.window(v[head], (j, 0), (bn, d))), acc * fade))
        top.set(peak)
    p.store((acc / total).cast("f16"), p.window(o[head], (i, 0), (bm, d)))
