"""Decode attention over pages of 16 positions. As in vLLM, the heads of a position are adjacent in memory.

Run: autosched tune --program examples/programs/decode_small_pages.py --size b=4 --size g=8 --size r=4 --size d=128
    --size positions=32768 --size width=1024 --size entries=512
"""

from autosched.tile import Input, Output, program

CACHE, OF_HEADS, INFINITY, PAGE = Input("positions width", "f16"), "b g r d", float("inf"), 16
INDICES = {"table": Input("b entries", "i32"), "lengths": Input("b", "i32")}


@program(q=Input(OF_HEADS, "f16"), k=CACHE, v=CACHE, **INDICES, o=Output(OF_HEADS, "f16"))
def decode_small_pages(p, q, k, v, table, lengths, o):
    """softmax(q k^T / sqrt(d)) v for one query position of each sequence; tiles are transposed"""
    (b, g, r, d), entries, br = q.shape, table.shape[1], 8
    bn, parts = p.choose(bn=(32, 64, 128), parts=(1, 2, 4, 8, 16, 32))
    sequence, group, i = p.blocks((b, g, r), (1, 1, br))
    length = p.load_scalar(lengths, sequence, high=entries * PAGE)
    query = p.load(p.window(q[sequence][group], (0, i), (d, br), turned=True))
    top, total, acc = p.state(p.full((1, br), -INFINITY)), p.state(p.zeros((1, br))), p.state(p.zeros((d, br)))

    def exponent(x, peak):
        return p.exp2((x - p.where(peak == -INFINITY, 0.0, peak)) * (1.4426950408889634 / d**0.5))

    def combine(one, other):
        peak = p.maximum(one[0], other[0])
        fades = exponent(one[0], peak), exponent(other[0], peak)
        return peak, *(one[n] * fades[0] + other[n] * fades[1] for n in (1, 2))

    for j in p.split(length, bn, parts=parts, states=(top, total, acc), combine=combine):
        pages = p.load(p.window(table, (j // PAGE, sequence), (bn // PAGE, 1), turned=True), padding=-1)
        pages = p.broadcast(pages, dim=0, size=bn)
        places = p.where(pages < 0, -1, pages * PAGE + p.rows(j, bn) % PAGE)
        keys, values = (p.load(p.window(t, (places, group * d), (bn, d))) for t in (k, v))
        z = p.where(p.rows(j, bn) < length, p.mma(keys, query), -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=0))
        e, fade = exponent(z, peak), exponent(top, peak)
        total.set(total * fade + p.reduction("add", e, dim=0))
        acc.set(p.mma(p.transpose(values), e.cast("f16"), acc * fade))
        top.set(peak)
    result = (acc / p.where(total == 0.0, 1.0, total)).cast("f16")
    p.store(result, p.window(o[sequence][group], (0, i), (d, br), turned=True))
