"""Cumulative sums of rows of any length: a loop carries the sum of the previous tiles.

Run: autosched tune --program examples/programs/cumulative_sum.py --size m=4096 --size n=8192
"""

from autosched.tile import Input, Output, program


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def cumulative_sum(p, x, out):
    """numpy.cumsum(x, axis=1)"""
    m, n = x.shape
    rows, width = p.choose(rows=(1, 2, 4, 8), width=(256, 512, 1024))
    (i,) = p.blocks((m,), (rows,))
    before = p.state(p.zeros((rows, 1)))
    for j in p.steps(n, width):
        tile = p.load(p.window(x, (i, j), (rows, width)))
        p.store(p.cumsum(tile, 1) + before, p.window(out, (i, j), (rows, width)))
        before.set(before + p.reduction("add", tile, 1))
