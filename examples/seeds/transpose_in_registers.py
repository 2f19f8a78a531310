"""XeTile RFC, appendix 2.3: the transpose of 2.2, with a map by which every subgroup transposes only its own data."""

from autosched.tile import Input, Output, program, wg_map

A, B, C = wg_map([4, 4], [32, 32]), wg_map([4, 4], [32, 64]), wg_map([4, 4], [32, 64])
BT = wg_map([16, 1], [64, 32])


@program(a=Input("m k", "f16"), bt=Input("n k", "f16"), c=Output("m n", "f32"))
def transpose_in_registers(p, a, bt, c):
    """a @ bt^T, where bt is transposed after the load"""
    i, j = p.blocks((a.shape[0], bt.shape[0]), (128, 256))
    x, y = p.window(a, (i, 0), (128, 32), map=A), p.window(bt, (j, 0), (256, 32), map=BT)
    acc = p.state(p.zeros((128, 256)))
    for _ in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(x), p.transpose(p.load(y), map=B), acc, map=C))
        x.move(0, 32)
        y.move(0, 32)
    p.store(acc, p.window(c, (i, j), (128, 256)))
