"""Decode attention: the heads of a group attend to a sequence of any length, whose keys lie in pages of a table.

Run: autosched tune --program examples/programs/decode_attention.py --size b=4 --size g=8 --size r=4
    --size d=128 --size pages=2048 --size page=16 --size entries=512
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")
CACHE = Input("pages g page d", "f16")


@program(
    q=Input("b g r d", "f16"), k=CACHE, v=CACHE, table=Input("b entries", "i32"), lengths=Input("b", "i32"),
    o=Output("b g r d", "f16"),
)  # fmt: skip
def decode_attention(p, q, k, v, table, lengths, o):
    """softmax(q k^T / sqrt(d)) v of one position, over the keys of each sequence; tiles are transposed"""
    (b, g, r, d), pages, page, entries = q.shape, k.shape[0], k.shape[2], table.shape[1]
    bn, br, parts = min(page, 128), 8, p.choose(parts=(1, 2, 4, 8, 16, 32, 64))
    sequence, group, i = p.blocks((b, g, r), (1, 1, br))
    length = p.load_scalar(lengths, sequence, high=entries * page)
    query = p.load(p.window(q[sequence][group], (0, i), (d, br), turned=True))
    top, total = p.state(p.full((1, br), -INFINITY)), p.state(p.zeros((1, br)))
    acc = p.state(p.zeros((d, br)))
    scale = 1.4426950408889634 / d**0.5

    def exponent(x, peak):
        return p.exp2(x * scale - p.where(peak == -INFINITY, 0.0, peak * scale))

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
    result = p.where(total == 0.0, 0.0, acc / total).cast("f16")
    p.store(result, p.window(o[sequence][group], (0, i), (d, br), turned=True))
