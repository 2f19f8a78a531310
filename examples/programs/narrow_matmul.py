"""Products of narrow types: 8-bit floats, 8-bit integers with a scale per row and column, and f32 rounded to tf32.

Run: autosched tune --program examples/programs/narrow_matmul.py:fp8_matmul --device h100
    --size m=4096 --size n=4096 --size k=4096
"""

from autosched.tile import Input, Output, program


def product(p, x, weights, type_, tf32=False):
    """Return a block's position and tile of x @ weights^T. Both arrays are contiguous along k, as ldmatrix needs."""
    (m, k), n = x.shape, weights.shape[0]
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64, 128))
    i, j = p.blocks((m, n), (bm, bn))
    left, right = p.window(x, (i, 0), (bm, bk)), p.window(weights, (j, 0), (bn, bk))
    acc = p.state(p.zeros((bm, bn), type_))
    for _ in p.steps(k, bk):
        acc.set(p.mma(p.load(left), p.transpose(p.load(right)), acc, tf32=tf32))
        left.move(0, bk)
        right.move(0, bk)
    return i, j, acc.read()


@program(x=Input("m k", "e4m3"), weights=Input("n k", "e4m3"), scale=Input("n", "f32"), out=Output("m n", "bf16"))
def fp8_matmul(p, x, weights, scale, out):
    """x @ weights^T * scale, in e4m3"""
    i, j, acc = product(p, x, weights, "f32")
    scales = p.load(p.window(scale, (0, j), (1, acc.shape[1])))
    p.store((acc * scales).cast("bf16"), p.window(out, (i, j), acc.shape))


@program(
    x=Input("m k", "i8"), weights=Input("n k", "i8"), of_rows=Input("m", "f32"), of_columns=Input("n", "f32"),
    out=Output("m n", "bf16"),
)  # fmt: skip
def int8_matmul(p, x, weights, of_rows, of_columns, out):
    """x @ weights^T, accumulated in i32 and multiplied by a scale for each row and each column"""
    i, j, acc = product(p, x, weights, "i32")
    bm, bn = acc.shape
    rows = p.load(p.window(of_rows, (i, 0), (bm, 1), column=True))
    columns = p.load(p.window(of_columns, (0, j), (1, bn)))
    p.store((acc.cast("f32") * rows * columns).cast("bf16"), p.window(out, (i, j), (bm, bn)))


@program(x=Input("m k", "f32"), weights=Input("n k", "f32"), out=Output("m n", "f32"))
def tf32_matmul(p, x, weights, out):
    """x @ weights^T on tensor cores, with factors rounded to 11 significant bits"""
    i, j, acc = product(p, x, weights, "f32", tf32=True)
    p.store(acc, p.window(out, (i, j), acc.shape))
