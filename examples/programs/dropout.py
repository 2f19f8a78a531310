"""Dropout: each element is kept with probability 1 - drop, and scaled.

A random number depends only on the element's index and the seed, so a backward pass can generate it again.

Run: autosched tune --program examples/programs/dropout.py --size m=4096 --size n=4096 --size one=1
"""

from autosched.tile import Input, Output, program


@program(x=Input("m n", "f16"), seed=Input("one", "i32"), drop=Input("one", "f32"), out=Output("m n", "f16"))
def dropout(p, x, seed, drop, out):
    """where(random(seed) < drop, 0, x / (1 - drop))"""
    (m, n), (rows, columns) = x.shape, p.choose(rows=(1, 2, 4), columns=(512, 1024))
    i, j = p.blocks((m, n), (rows, columns))
    key, share = (p.load(p.window(a, (0, 0), (1, 1))) for a in (seed, drop))
    drawn = p.random(p.rows(i, rows) * n + p.columns(j, columns), key)
    tile = p.load(p.window(x, (i, j), (rows, columns))).cast("f32")
    p.store(p.where(drawn < share, 0.0, tile / (1.0 - share)).cast("f16"), p.window(out, (i, j), (rows, columns)))
