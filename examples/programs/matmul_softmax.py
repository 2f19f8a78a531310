"""out = softmax(x @ w) along rows of up to 256 columns: an expert router in one kernel."""

from autosched.tile import Input, Output, program


@program(x=Input("m k", "f16"), w=Input("k n", "f16"), out=Output("m n", "f32"))
def matmul_softmax(p, x, w, out):
    """softmax of the rows of x @ w"""
    (m, k), n = x.shape, w.shape[1]
    bm, bk = p.choose(bm=(32, 64, 128), bk=(32, 64))
    bn = max(p.cover(n), 32)
    (i,) = p.blocks((m,), (bm,))
    rows, columns = p.window(x, (i, 0), (bm, bk)), p.window(w, (0, 0), (bk, bn))
    acc = p.state(p.zeros((bm, bn)))
    for _ in p.steps(k, bk):
        acc.set(p.mma(p.load(rows), p.load(columns), acc))
        rows.move(0, bk)
        columns.move(bk, 0)
    logits = p.where(p.columns(0, bn) < n, acc, -float("inf"))
    e = p.exp2((logits - p.reduction("maximumf", logits, dim=1)) * 1.4426950408889634)
    p.store(e / p.reduction("add", e, dim=1), p.window(out, (i, 0), (bm, bn)))
