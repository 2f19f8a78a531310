"""XeTile RFC, appendix 2.1: GEMM with prefetched tiles. The RFC's maps are halved along m.

The RFC's 256x256 accumulators would fill the register file of an SM. A tile of 128x256, divided among 16 subgroups of
32x64, fits. In the RFC, each product accumulates from zero, and tiles are prefetched three steps ahead.
"""

from autosched.tile import Input, Output, program, wg_map

A, B, C = wg_map([4, 4], [32, 32]), wg_map([4, 4], [32, 64]), wg_map([4, 4], [32, 64])
FAR_A, FAR_B = wg_map([16, 1], [8, 32]), wg_map([4, 4], [8, 64])


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), c=Output("m n", "f32"))
def gemm_prefetch(p, a, b, c):
    """a @ b, with the maps of the RFC"""
    i, j = p.blocks((a.shape[0], b.shape[1]), (128, 256))
    x, y = p.window(a, (i, 0), (128, 32), map=A), p.window(b, (0, j), (32, 256), map=B)
    far_x, far_y = p.window(a, (i, 96), (128, 32), map=FAR_A), p.window(b, (96, j), (32, 256), map=FAR_B)
    acc = p.state(p.zeros((128, 256)))
    for _ in p.steps(a.shape[1], 32):
        left, right = p.load(x), p.load(y)
        p.prefetch(far_x)
        p.prefetch(far_y)
        acc.set(p.mma(left, right, acc, map=C))
        for window, step in ((x, (0, 32)), (y, (32, 0)), (far_x, (0, 32)), (far_y, (32, 0))):
            window.move(*step)
    p.store(acc, p.window(c, (i, j), (128, 256)))
