"""out = silu(x @ gate) * (x @ up): the first half of a gated MLP, in one kernel that reads x once."""

from autosched.tile import Input, Output, program


@program(x=Input("m k", "bf16"), gate=Input("k n", "bf16"), up=Input("k n", "bf16"), out=Output("m n", "bf16"))
def gated_mlp(p, x, gate, up, out):
    """silu(x @ gate) * (x @ up)"""
    (m, k), n = x.shape, gate.shape[1]
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    rows = p.window(x, (i, 0), (bm, bk))
    gates, ups = (p.window(w, (0, j), (bk, bn)) for w in (gate, up))
    g, u = p.state(p.zeros((bm, bn))), p.state(p.zeros((bm, bn)))
    for _ in p.steps(k, bk):
        tile = p.load(rows)
        g.set(p.mma(tile, p.load(gates), g))
        u.set(p.mma(tile, p.load(ups), u))
        rows.move(0, bk)
        gates.move(bk, 0)
        ups.move(bk, 0)
    gated = g.read()
    p.store((gated * p.sigmoid(gated) * u.read()).cast("bf16"), p.window(out, (i, j), (bm, bn)))
