"""A product of e4m3 whose blocks of 32 numbers along k share a scale, a power of two (mxf8).

GeForce cards of Blackwell multiply so by one instruction; on other GPUs that multiply e4m3 the sums of each block are
scaled by themselves.

Run: autosched tune --program examples/programs/mxf8_matmul.py --device rtx5090
    --size m=256 --size n=4096 --size k=4096 --size blocks=128
"""

from autosched.tile import Input, Output, program


@program(
    a=Input("m k", "e4m3"), b=Input("n k", "e4m3"), scale_a=Input("m blocks", "u8"), scale_b=Input("n blocks", "u8"),
    out=Output("m n", "bf16"),
)  # fmt: skip
def mxf8_matmul(p, a, b, scale_a, scale_b, out):
    """(a * scale_a) @ (b * scale_b).T; scales are exponents, biased by 127 (ue8m0)"""
    (m, k), n = a.shape, b.shape[0]
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64, 128))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        x, y = p.load(p.window(a, (i, at), (bm, bk))), p.load(p.window(b, (j, at), (bn, bk)))
        of_x, of_y = (
            p.load(p.window(scales, (place, at // 32), (size, bk // 32)))
            for scales, place, size in ((scale_a, i, bm), (scale_b, j, bn))
        )
        acc.set(p.mma(x, p.transpose(y), acc, scale_a=of_x, scale_b=p.transpose(of_y)))
    p.store(acc.read().cast("bf16"), p.window(out, (i, j), (bm, bn)))
