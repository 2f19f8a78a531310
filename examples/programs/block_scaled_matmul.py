"""Products of block-scaled types: each block along k has a scale. mxf8 holds e4m3; mxf4 and nvf4 hold pairs of e2m1.

Blackwell's GeForce cards have an instruction for such products. On other GPUs that support e4m3, the sum of each mxf8
block is scaled separately.

Run: autosched tune --program examples/programs/block_scaled_matmul.py:nvf4_matmul --device rtx5090
    --size m=256 --size n=4096 --size pairs=2048 --size blocks=256
"""

from autosched.tile import Input, Output, program


def product(p, a, b, scale_a, scale_b, block):
    """Return a block's position, and its tile of (a * scale_a) @ (b * scale_b).T; ``block`` elements share a scale."""
    (m, k), n = a.shape, b.shape[0]
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64, 128))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        x, y = p.load(p.window(a, (i, at), (bm, bk))), p.load(p.window(b, (j, at), (bn, bk)))
        of_x, of_y = (
            p.load(p.window(scales, (position, at // block), (size, bk // block)))
            for scales, position, size in ((scale_a, i, bm), (scale_b, j, bn))
        )
        acc.set(p.mma(x, p.transpose(y), acc, scale_a=of_x, scale_b=p.transpose(of_y)))
    return i, j, acc.read()


@program(
    a=Input("m k", "e4m3"), b=Input("n k", "e4m3"), scale_a=Input("m blocks", "u8"), scale_b=Input("n blocks", "u8"),
    out=Output("m n", "bf16"),
)  # fmt: skip
def mxf8_matmul(p, a, b, scale_a, scale_b, out):
    """a @ b.T in e4m3; 32 numbers share a scale, which is a power of 2 (exponent with bias 127: ue8m0)"""
    i, j, acc = product(p, a, b, scale_a, scale_b, 32)
    p.store(acc.cast("bf16"), p.window(out, (i, j), acc.shape))


@program(
    a=Input("m pairs", "e2m1x2"), b=Input("n pairs", "e2m1x2"), scale_a=Input("m blocks", "u8"),
    scale_b=Input("n blocks", "u8"), out=Output("m n", "bf16"),
)  # fmt: skip
def mxf4_matmul(p, a, b, scale_a, scale_b, out):
    """a @ b.T in e2m1; 32 numbers share a scale, which is a power of 2 (exponent with bias 127: ue8m0)"""
    i, j, acc = product(p, a, b, scale_a, scale_b, 16)
    p.store(acc.cast("bf16"), p.window(out, (i, j), acc.shape))


@program(
    a=Input("m pairs", "e2m1x2"), b=Input("n pairs", "e2m1x2"), scale_a=Input("m blocks", "u8"),
    scale_b=Input("n blocks", "u8"), out=Output("m n", "bf16"),
)  # fmt: skip
def nvf4_matmul(p, a, b, scale_a, scale_b, out):
    """a @ b.T in e2m1; 16 numbers share a scale, which is an e4m3 without a sign"""
    i, j, acc = product(p, a, b, scale_a, scale_b, 8)
    p.store(acc.cast("bf16"), p.window(out, (i, j), acc.shape))
