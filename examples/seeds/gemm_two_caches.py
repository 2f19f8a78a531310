"""XeTile RFC, appendix 2.5: GEMM with prefetches to L1 and L2. Each prefetch to L2 covers four steps.

The RFC's 512x256 accumulators need 512 KiB, too much for an SM. Here a tile is 256x128, with 4x2 subgroups of 64x64. In
the RFC, the second tile for L2 starts 128 columns (one tile width) after the first. The RFC's condition for a prefetch
to L2 counts steps instead of columns.
"""

from autosched.tile import Input, Output, program, wg_map

A, B, C = wg_map([4, 2], [64, 32]), wg_map([4, 2], [32, 64]), wg_map([4, 2], [64, 64])
FAR_A, FAR_B = wg_map([8, 1], [32, 128]), wg_map([8, 1], [16, 128])
NEAR_A, NEAR_B = wg_map([8, 1], [32, 32]), wg_map([4, 2], [8, 64])


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), c=Output("m n", "f32"))
def gemm_two_caches(p, a, b, c):
    """a @ b, with prefetches to L2 and L1"""
    i, j = p.blocks((a.shape[0], b.shape[1]), (256, 128))
    for at in (0, 128):
        p.prefetch(p.window(a, (i, at), (256, 128), map=FAR_A), locality=2)
        p.prefetch(p.window(b, (at, j), (128, 128), map=FAR_B), locality=2)
    far_a, far_b = p.window(a, (i, 256), (256, 128), map=FAR_A), p.window(b, (256, j), (128, 128), map=FAR_B)
    for at in (0, 32, 64, 96):
        p.prefetch(p.window(a, (i, at), (256, 32), map=NEAR_A), locality=3)
        p.prefetch(p.window(b, (at, j), (32, 128), map=NEAR_B), locality=3)
    near_a, near_b = p.window(a, (i, 128), (256, 32), map=NEAR_A), p.window(b, (128, j), (32, 128), map=NEAR_B)
    x, y = p.window(a, (i, 0), (256, 32), map=A), p.window(b, (0, j), (32, 128), map=B)
    acc = p.state(p.zeros((256, 128)))
    for at in p.steps(a.shape[1], 32):
        left, right = p.load(x), p.load(y)
        with p.when(at % 128):
            p.prefetch(far_a, locality=2)
            p.prefetch(far_b, locality=2)
            far_a.move(0, 128)
            far_b.move(128, 0)
        p.prefetch(near_a, locality=3)
        p.prefetch(near_b, locality=3)
        near_a.move(0, 32)
        near_b.move(32, 0)
        x.move(0, 32)
        y.move(32, 0)
        acc.set(p.mma(left, right, acc, map=C))
    p.store(acc, p.window(c, (i, j), (256, 128)))
