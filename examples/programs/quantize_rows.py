"""Quantisation to e4m3 with a scale for each row, and a product whose i8 weights are converted in registers.

Run: autosched tune --program examples/programs/quantize_rows.py:quantize_rows --size m=4096 --size n=1024
"""

from autosched.tile import Input, Output, program

LARGEST = 448.0  # the largest e4m3 number


@program(x=Input("m n", "bf16"), out=Output("m n", "e4m3"), scale=Output("m", "f32"))
def quantize_rows(p, x, out, scale):
    """x / scale as e4m3, where a row's scale is max |x| / 448"""
    m, n = x.shape
    bm = p.choose(bm=(1, 2, 4))
    width = p.cover(n)
    (i,) = p.blocks((m,), (bm,))
    row = p.load(p.window(x, (i, 0), (bm, width))).cast("f32")
    sizes = p.where(p.columns(0, width) < n, p.absolute(row), -float("inf"))
    most = p.maximum(p.reduction("maximumf", sizes, dim=1), 1e-12)
    p.store(most / LARGEST, p.window(scale, (i, 0), (bm, 1), column=True))
    p.store((row * (LARGEST / most)).cast("e4m3"), p.window(out, (i, 0), (bm, width)))


@program(x=Input("m k", "f16"), w=Input("k n", "i8"), scale=Input("n", "f32"), out=Output("m n", "f16"))
def int8_weights(p, x, w, scale, out):
    """x @ (w * scale), where w has 8 bits and each column has a scale"""
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = p.choose(bm=(32, 64, 128), bn=(32, 64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for s in p.steps(k, bk):
        weights = p.load(p.window(w, (s, j), (bk, bn))).cast("f32").cast("f16")
        acc.set(p.mma(p.load(p.window(x, (i, s), (bm, bk))), weights, acc))
    p.store((acc * p.load(p.window(scale, (0, j), (1, bn)))).cast("f16"), p.window(out, (i, j), (bm, bn)))
