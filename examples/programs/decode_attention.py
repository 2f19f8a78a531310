"""Decode attention over a paged cache: the query heads of a group attend to the keys of a sequence of any length.

Run: autosched tune --program examples/programs/decode_attention.py --size b=4 --size g=8 --size r=4
    --size d=128 --size pages=512 --size page=64 --size entries=128
"""

from autosched.tile import Input, Output, program

CACHE, OF_HEADS, INFINITY = Input("pages g page d", "f16"), "b g r d", float("inf")
INDICES = {"table": Input("b entries", "i32"), "lengths": Input("b", "i32")}


@program(q=Input(OF_HEADS, "f16"), k=CACHE, v=CACHE, **INDICES, o=Output(OF_HEADS, "f16"))
def paged_decode(p, q, k, v, table, lengths, o):
    """softmax(q k^T / sqrt(d)) v for one query position of each sequence; tiles are transposed"""
    (b, g, r, d), (pages, _, page, _), entries = q.shape, k.shape, table.shape[1]
    bn, br, parts = min(page, 128), 8, p.choose(parts=(1, 2, 4, 8, 16, 32))
    sequence, group, i = p.blocks((b, g, r), (1, 1, br))
    length = p.load_scalar(lengths, sequence, high=entries * page)
    query = p.load(p.window(q[sequence][group], (0, i), (d, br), turned=True))
    top, total, acc = p.state(p.full((1, br), -INFINITY)), p.state(p.zeros((1, br))), p.state(p.zeros((d, br)))

    def exponent(x, peak):
        return p.exp2((x - p.where(peak == -INFINITY, 0.0, peak)) * (1.4426950408889634 / d**0.5))

    def combine(one, other):
        peak = p.maximum(one[0], other[0])
        fades = exponent(one[0], peak), exponent(other[0], peak)
        return peak, *(one[n] * fades[0] + other[n] * fades[1] for n in (1, 2))

    for j in p.split(length, bn, parts=parts, states=(top, total, acc), combine=combine):
        at = p.load_scalar(table, sequence, j // page, high=pages - 1)
        keys, values = (p.load(p.window(t[at][group], (j % page, 0), (bn, d))) for t in (k, v))
        z = p.where(p.rows(j, bn) < length, p.mma(keys, query), -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=0))
        e, fade = exponent(z, peak), exponent(top, peak)
        total.set(total * fade + p.reduction("add", e, dim=0))
        acc.set(p.mma(p.transpose(values), e.cast("f16"), acc * fade))
        top.set(peak)
    result = (acc / p.where(total == 0.0, 1.0, total)).cast("f16")
    p.store(result, p.window(o[sequence][group], (0, i), (d, br), turned=True))
