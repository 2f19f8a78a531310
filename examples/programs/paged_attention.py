"""Attention over pages of keys and values: entry i of a table is the page of a sequence's keys from 16 i on.

Run: autosched tune --program examples/programs/paged_attention.py --size h=32 --size g=8 --size s=64
    --size d=128 --size pages=256 --size places=8192
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")
PAGE = 16  # keys per page


@program(
    q=Input("h s d", "f16"), k=Input("g places d", "f16"), v=Input("g places d", "f16"),
    table=Input("pages", "i32"), o=Output("h s d", "f16"),
)  # fmt: skip
def paged_attention(p, q, k, v, table, o):
    """softmax(q k^T / sqrt(d)) v, where the keys of page table[i] begin at row 16 * table[i]"""
    (h, s, d), g, keys = q.shape, k.shape[0], table.shape[0] * PAGE
    bm, bn = p.choose(bm=(16, 64), bn=(32, 64))
    head, i = p.blocks((h, s), (1, bm))
    group = head // (h // g)
    query = p.load(p.window(q[head], (i, 0), (bm, d)))
    top, total = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1)))
    acc = p.state(p.zeros((bm, d)))
    scale = 1.4426950408889634 / d**0.5
    for j in p.steps(keys, bn):
        page = p.load(p.window(table, p.rows(j, bn) >> 4, (bn, 1), column=True), padding=-1)
        rows = p.where(page < 0, -1, page * PAGE + (p.rows(j, bn) & 15))
        z = p.mma(query, p.transpose(p.load(p.window(k[group], (rows, 0), (bn, d)))))
        z = p.where(p.columns(j, bn) < keys, z, -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
        e, fade = p.exp2((z - peak) * scale), p.exp2((top - peak) * scale)
        total.set(total * fade + p.reduction("add", e, dim=1))
        acc.set(p.mma(e.cast("f16"), p.load(p.window(v[group], (rows, 0), (bn, d))), acc * fade))
        top.set(peak)
    p.store((acc / total).cast("f16"), p.window(o[head], (i, 0), (bm, d)))
