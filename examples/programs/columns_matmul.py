"""A product with some columns of a larger array, such as one output of a fused projection, without a copy.

Run: autosched tune --program examples/programs/columns_matmul.py --size m=256 --size n=4096 --size k=1024 --db best.db
    (add --size x_stride=3072 if rows of the larger array have 3072 elements)
In Python: kernel = autosched.Database("best.db").kernel_of_any_size(columns_matmul, n=4096, k=1024)
           y = kernel(qkv[:, 1024:2048], w)   # any number of rows, any row stride
"""

from autosched.tile import Input, Output, program


@program(dynamic="m", x=Input("m k", "f16", strided=True), w=Input("k n", "f16"), out=Output("m n", "f16"))
def columns_matmul(p, x, w, out):
    """x @ w"""
    (m, n), k = out.shape, x.shape[1]
    bm, bn, bk = p.choose(bm=(16, 32, 64, 128), bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        acc.set(p.mma(p.load(p.window(x, (i, at), (bm, bk))), p.load(p.window(w, (at, j), (bk, bn))), acc))
    p.store(acc.read().cast("f16"), p.window(out, (i, j), (bm, bn)))
