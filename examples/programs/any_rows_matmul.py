"""A linear layer for any number of tokens: one kernel serves every m.

Run: autosched tune --program examples/programs/any_rows_matmul.py --size m=256 --size n=4096 --size k=4096 --db best.db
In Python: kernel = autosched.Database("best.db").kernel_of_any_size(any_rows_matmul, n=4096, k=4096)
           y = kernel(x, w, bias)   # x of any number of rows
"""

from autosched.tile import Input, Output, program


@program(
    dynamic="m", x=Input("m k", "f16"), w=Input("k n", "f16"), bias=Input("n", "f32"), out=Output("m n", "f16"),
)  # fmt: skip
def any_rows_matmul(p, x, w, bias, out):
    """x @ w + bias"""
    (m, n), k = out.shape, x.shape[1]
    bm, bn, bk = p.choose(bm=(16, 32, 64, 128), bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        acc.set(p.mma(p.load(p.window(x, (i, at), (bm, bk))), p.load(p.window(w, (at, j), (bk, bn))), acc))
    p.store((acc + p.load(p.window(bias, (0, j), (1, bn)))).cast("f16"), p.window(out, (i, j), (bm, bn)))
