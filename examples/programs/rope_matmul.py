"""A projection x @ w with rotary embedding: an angle per row and column rotates the two halves of each head."""

from autosched.tile import Input, Output, program


@program(
    x=Input("m k", "bf16"), w=Input("k n", "bf16"), angle=Input("m half", "f32"), out=Output("m n", "bf16")
)  # fmt: skip
def rope_matmul(p, x, w, angle, out):
    """rotary position embedding of x @ w; a head has 2 * half columns"""
    (m, k), n, half = x.shape, w.shape[1], angle.shape[1]
    bm, bk = p.choose(bm=(64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, 2 * half))  # one block per head and tile of rows
    rows = p.window(x, (i, 0), (bm, bk))
    lower, upper = p.window(w, (0, j), (bk, half)), p.window(w, (0, j + half), (bk, half))
    a, b = p.state(p.zeros((bm, half))), p.state(p.zeros((bm, half)))
    for _ in p.steps(k, bk):
        tile = p.load(rows)
        a.set(p.mma(tile, p.load(lower), a))
        b.set(p.mma(tile, p.load(upper), b))
        rows.move(0, bk)
        lower.move(bk, 0)
        upper.move(bk, 0)
    turn = p.load(p.window(angle, (i, 0), (bm, half)))
    c, s, low, high = p.cosine(turn), p.sine(turn), a.read(), b.read()
    p.store((low * c - high * s).cast("bf16"), p.window(out, (i, j), (bm, half)))
    p.store((high * c + low * s).cast("bf16"), p.window(out, (i, j + half), (bm, half)))
