"""Softmax of every row: with one load if a row fits into a block, or in two passes for rows of any length."""

from autosched.tile import Input, Output, program

INFINITY = float("inf")
LOG2_E = 1.4426950408889634


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def row_softmax(p, x, out):
    """softmax of rows that fit into a block"""
    m, n = x.shape
    rows, width = p.choose(rows=(1, 2, 4, 8)), p.cover(n)
    (i,) = p.blocks((m,), (rows,))
    tile = p.load(p.window(x, (i, 0), (rows, width)), padding=-INFINITY)
    e = p.exp2((tile - p.reduction("maximumf", tile, dim=1)) * LOG2_E)
    p.store(e / p.reduction("add", e, dim=1), p.window(out, (i, 0), (rows, width)))


@program(x=Input("m n", "f16"), out=Output("m n", "f16"))
def long_softmax(p, x, out):
    """softmax of rows of any length: one pass computes maximum and sum, and a second pass computes the quotients"""
    m, n = x.shape
    rows, width = p.choose(rows=(1, 2, 4), width=(512, 1024))
    (i,) = p.blocks((m,), (rows,))
    top, total = p.state(p.full((rows, 1), -INFINITY)), p.state(p.zeros((rows, 1)))
    for j in p.steps(n, width):
        tile = p.load(p.window(x, (i, j), (rows, width)), padding=-INFINITY).cast("f32")
        peak = p.maximum(top, p.reduction("maximumf", tile, dim=1))
        grown = p.exp2((top - peak) * LOG2_E)
        total.set(total * grown + p.reduction("add", p.exp2((tile - peak) * LOG2_E), dim=1))
        top.set(peak)
    for j in p.steps(n, width):
        tile = p.load(p.window(x, (i, j), (rows, width))).cast("f32")
        p.store((p.exp2((tile - top) * LOG2_E) / total).cast("f16"), p.window(out, (i, j), (rows, width)))
