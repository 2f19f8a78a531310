"""out = layernorm(x) @ w: one pass computes mean and deviation of rows, and a second pass normalises and multiplies."""

from autosched.tile import Input, Output, program


@program(
    x=Input("m k", "f16"), gamma=Input("k", "f32"), beta=Input("k", "f32"), w=Input("k n", "f16"),
    out=Output("m n", "f16"),
)  # fmt: skip
def layernorm_matmul(p, x, gamma, beta, w, out):
    """layernorm(x) @ w"""
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    total, squares = p.state(p.zeros((bm, 1))), p.state(p.zeros((bm, 1)))
    for at in p.steps(k, bk):
        tile = p.load(p.window(x, (i, at), (bm, bk))).cast("f32")
        total.set(total + p.reduction("add", tile, dim=1))
        squares.set(squares + p.reduction("add", tile * tile, dim=1))
    mean = total / k
    scale = p.rsqrt(squares / k - mean * mean + 1e-5)
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        tile = p.load(p.window(x, (i, at), (bm, bk))).cast("f32")
        factor, offset = (p.load(p.window(row, (0, at), (1, bk))) for row in (gamma, beta))
        normal = (tile - mean) * scale * factor + offset  # 0 beyond k, because factor and offset are 0 there
        acc.set(p.mma(normal.cast("f16"), p.load(p.window(w, (at, j), (bk, bn))), acc))
    p.store(acc.cast("f16"), p.window(out, (i, j), (bm, bn)))
