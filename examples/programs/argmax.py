"""Column of the largest element of each row (the first if several are equal), for rows of any length.

Run: autosched tune --program examples/programs/argmax.py --size m=4096 --size n=32000
"""

from autosched.tile import Input, Output, program

INFINITY = float("inf")


@program(x=Input("m n", "f16"), index=Output("m", "i32"), value=Output("m", "f32"))
def argmax(p, x, index, value):
    """numpy.argmax(x, axis=1), and the elements themselves"""
    m, n = x.shape
    rows, width = p.choose(rows=(1, 2, 4), width=(512, 1024, 2048))
    (i,) = p.blocks((m,), (rows,))
    best, at = p.state(p.full((rows, 1), -INFINITY)), p.state(p.full((rows, 1), 0, "i32"))
    for j in p.steps(n, width):
        tile = p.load(p.window(x, (i, j), (rows, width)), padding=-INFINITY).cast("f32")
        largest, column = p.max_with_index(tile, 1, first=j)
        is_nan, was_nan = ~(largest == largest), ~(best == best)  # NaN is larger than all numbers
        better = (largest > best) | (is_nan & ~was_nan)
        at.set(p.where(better, column, at))
        best.set(p.where(better, largest, best))
    p.store(at, p.window(index, (i, 0), (rows, 1), column=True))
    p.store(best, p.window(value, (i, 0), (rows, 1), column=True))
