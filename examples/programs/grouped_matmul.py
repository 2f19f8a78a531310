"""Grouped matmul: rows are sorted by expert, and an array in device memory has the first row of each expert.

Run: autosched tune --program examples/programs/grouped_matmul.py --size m=4096 --size k=2048 --size n=1024
    --size e=64 --size ends=65
"""

from autosched.tile import Input, Output, program


@program(
    a=Input("m k", "f16"), w=Input("e k n", "f16"), offsets=Input("ends", "i32"), out=Output("m n", "f16")
)  # fmt: skip
def matmul_of_groups(p, a, w, offsets, out):
    """a @ w[g] for rows offsets[g] to offsets[g + 1]; no tile has rows of two groups, and groups may be empty"""
    (m, k), (e, _, n) = a.shape, w.shape
    bm, bn, bk = p.choose(bm=(64, 128), bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((m + e * (bm - 1), n), (bm, bn))  # maximum number of tiles for any offsets
    tile, c = i // bm, p.cover(e)
    begins, ends = (p.load(p.window(offsets, (at, 0), (c, 1), column=True)) for at in (0, 1))
    tiles = p.where(p.rows(0, c) < e, (ends - begins + (bm - 1)) // bm, 0)
    upto = p.reduction("add", p.where(p.rows(0, c) <= p.columns(0, c), tiles, 0), dim=0)
    done = upto <= tile  # 1 for each group before this block's group; in blocks after the last tile, 1 for all groups
    group = p.reduction("add", p.where(done, p.full((1, c), 1, "i32"), 0), dim=1)
    before = p.reduction("maxsi", p.where(done, upto, 0), dim=1)
    number = p.uniform(group, high=e, usual=p.minimum(tile * bm * e // m, e))
    begun = p.uniform(before, high=m + e, usual=tile)
    first, end = (p.load_scalar(offsets, number + at, high=m, ordered=True) for at in (0, 1))
    row = p.minimum(p.maximum(first + (tile - begun) * bm, 0), m)
    own = w[p.minimum(number, e - 1)]
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(p.minimum(p.maximum(end - row, 0), 1) * k, bk):
        rows, columns = p.window(a, (row, at), (bm, bk)), p.window(own, (at, j), (bk, bn))
        acc.set(p.mma(p.load(rows), p.load(columns), acc))
    p.store(acc.read().cast("f16"), p.window(out, (row, j), (bm, bn)), rows_below=end)
