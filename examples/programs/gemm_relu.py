"""out = relu(a @ b + bias): a matrix product with an element-wise epilogue.

Run: autosched tune --program examples/programs/gemm_relu.py --size m=4096 --size n=4096 --size k=4096 --trials 64
"""

from autosched.tile import Input, Output, program


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), bias=Input("n", "f32"), out=Output("m n", "f16"))
def gemm_relu(p, a, b, bias, out):
    """relu(a @ b + bias)"""
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = p.choose(bm=(64, 128, 256), bn=(64, 128, 256), bk=(16, 32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    left, right = p.window(a, (i, 0), (bm, bk)), p.window(b, (0, j), (bk, bn))
    acc = p.state(p.zeros((bm, bn), "f32"))
    for _ in p.steps(k, bk):
        acc.set(p.mma(p.load(left), p.load(right), acc))
        left.move(0, bk)
        right.move(bk, 0)
    row = p.broadcast(p.load(p.window(bias, (0, j), (1, bn))), dim=0, size=bm)
    p.store(p.maximum(acc + row, 0.0).cast("f16"), p.window(out, (i, j), (bm, bn)))
