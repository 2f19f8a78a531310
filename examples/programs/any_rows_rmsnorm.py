"""RMS norm for any number of rows: one kernel, whose arguments eps and gain are passed by value.

Run: autosched tune --program examples/programs/any_rows_rmsnorm.py --size m=256 --size n=4096 --db best.db
In Python: kernel = autosched.Database("best.db").kernel_of_any_size(any_rows_rmsnorm, n=4096)
           y = kernel(x, weight, eps=1e-6)   # gain keeps its default
"""

from autosched.tile import Input, Output, Scalar, program


@program(
    dynamic="m", x=Input("m n", "f16"), weight=Input("n", "f16"), eps=Scalar("f32", 1e-5, low=0.0),
    gain=Scalar("f32", 1.0), out=Output("m n", "f16"),
)  # fmt: skip
def any_rows_rmsnorm(p, x, weight, eps, gain, out):
    """gain * x / sqrt(mean(x^2) + eps) * weight"""
    (m, n), bm = x.shape, p.choose(bm=(1, 2, 4, 8))
    width = p.cover(n)
    (i,) = p.blocks((m,), (bm,))
    row = p.load(p.window(x, (i, 0), (bm, width))).cast("f32")
    scale = gain * p.rsqrt(p.reduction("add", row * row, dim=1) * (1.0 / n) + eps)
    by = p.load(p.window(weight, (0, 0), (1, width))).cast("f32")
    p.store((row * scale * by).cast("f16"), p.window(out, (i, 0), (bm, width)))
