"""XeTile RFC, appendix 1: C = A B with B stored normally, stored transposed, and transposed after its load."""

from autosched.tile import Input, Output, program


def product(p, a, b, c, at, shape, step, **view):
    """Multiply in 64x64 tiles with steps of 32, as in the RFC. ``view``: options of b's window, or ``transposed``."""
    transposed = view.pop("transposed", False)
    i, j = p.blocks(c.shape, (64, 64))
    x, y = p.window(a, (i, 0), (64, 32)), p.window(b, at(j), shape, **view)
    acc = p.state(p.zeros((64, 64)))
    for _ in p.steps(a.shape[1], 32):
        right = p.load(y)
        acc.set(p.mma(p.load(x), p.transpose(right) if transposed else right, acc))
        x.move(0, 32)
        y.move(*step)
    p.store(acc.cast("bf16"), p.window(c, (i, j), (64, 64)))


@program(a=Input("m k", "bf16"), b=Input("k n", "bf16"), c=Output("m n", "bf16"))
def plain(p, a, b, c):
    """A and B row-major"""
    product(p, a, b, c, lambda j: (0, j), (32, 64), (32, 0))


@program(a=Input("m k", "bf16"), bt=Input("n k", "bf16"), c=Output("m n", "bf16"))
def viewed(p, a, bt, c):
    """B stored transposed, and loaded with order = [0, 1]"""
    product(p, a, bt, c, lambda j: (0, j), (32, 64), (32, 0), turned=True)


@program(a=Input("m k", "bf16"), bt=Input("n k", "bf16"), c=Output("m n", "bf16"))
def transposed(p, a, bt, c):
    """B stored transposed, and transposed after the load"""
    product(p, a, bt, c, lambda j: (j, 0), (64, 32), (0, 32), transposed=True)
