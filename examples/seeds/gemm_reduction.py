"""XeTile RFC, appendix 2.2: GEMM with transpose, broadcast, convert_layout and reduction; maps are halved along m.

In the RFC, every block of columns overwrites the row sums of other blocks. This program adds the sums up with
``atomic_rmw <addf>`` in an array that the caller has set to zero.
"""

from autosched.tile import InOut, Input, program, wg_map

A, B, C = wg_map([4, 4], [32, 32]), wg_map([4, 4], [32, 64]), wg_map([4, 4], [32, 64])
BT = wg_map([4, 4], [64, 32])
ROW, WIDE, SUMS = wg_map([4, 4], [1, 64]), wg_map([16, 1], [8, 256]), wg_map([16, 1], [8, 1])


@program(a=Input("m k", "f16"), bt=Input("n k", "f16"), row=Input("n", "f32"), res=InOut("m", "f32"))
def gemm_reduction(p, a, bt, row, res):
    """res += row sums of (a @ bt^T + row)"""
    n = bt.shape[0]
    i, j = p.blocks((a.shape[0], n), (128, 256))
    x, y = p.window(a, (i, 0), (128, 32), map=A), p.window(bt, (j, 0), (256, 32), map=BT)
    acc = p.state(p.zeros((128, 256)))
    for _ in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(x), p.transpose(p.load(y), map=B), acc, map=C))
        x.move(0, 32)
        y.move(0, 32)
    added = acc + p.broadcast(p.load(p.window(row, (0, j), (1, 256), map=ROW)), dim=0, size=128, map=C)
    added = p.where(p.columns(j, 256) < n, added, 0.0)  # columns after bt's last one must not count
    sums = p.reduction("add", p.convert_layout(added, WIDE), dim=1, map=SUMS)
    p.atomic_rmw("addf", sums, p.window(res, (i, 0), (128, 1), column=True))
