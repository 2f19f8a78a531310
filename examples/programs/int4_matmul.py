"""Product with 4-bit weights: a byte has two weights along k; each column has a scale per group along k."""

from autosched.tile import Input, Output, program


@program(
    x=Input("m k", "f16"), w=Input("half n", "u8"), scale=Input("groups n", "f16"), out=Output("m n", "f16")
)  # fmt: skip
def int4_matmul(p, x, w, scale, out):
    """x @ ((w - 8) * scale), where w has 4 bits"""
    (m, k), n = x.shape, w.shape[1]
    group = k // scale.shape[0]
    bm, bn, bk = p.choose(bm=(32, 64, 128), bn=(64, 128), bk=(32,))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        both = p.broadcast(p.load(p.window(w, (at // 2, j), (bk // 2, bn))).cast("i32"), dim=0, size=bk)
        four = p.where(p.rows(at, bk) % 2 == 0, both & 15, both >> 4)
        factor = p.load(p.window(scale, (at // group, j), (1, bn))).cast("f32")
        weights = ((four.cast("f32") - 8.0) * factor).cast("f16")
        acc.set(p.mma(p.load(p.window(x, (i, at), (bm, bk))), weights, acc))
    p.store(acc.cast("f16"), p.window(out, (i, j), (bm, bn)))
