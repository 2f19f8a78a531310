"""XeTile RFC, appendix 2.4: GEMM with a ring buffer of four slots in shared memory, which the program fills.

The RFC's 64 subgroups are 2,048 threads, too many for a block. Here a tile is 128x128, with 16 subgroups of 32x32. The
RFC passes absolute offsets to an operation that expects relative ones. Here the slot is computed from the iteration.
"""

from autosched.tile import Input, Output, program, wg_map

A, B, C = wg_map([4, 4], [32, 32]), wg_map([4, 4], [32, 32]), wg_map([4, 4], [32, 32])
COPY_A, COPY_B = wg_map([16, 1], [8, 32]), wg_map([4, 4], [8, 32])


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), c=Output("m n", "f32"))
def gemm_shared(p, a, b, c):
    """a @ b, with cooperative loads three steps ahead"""
    i, j = p.blocks((a.shape[0], b.shape[1]), (128, 128))
    ring_a, ring_b = p.shared(128, 128, "f16"), p.shared(128, 128, "f16")
    far_a, far_b = p.window(a, (i, 0), (128, 32), map=COPY_A), p.window(b, (0, j), (32, 128), map=COPY_B)

    def fill(slot):
        p.store(p.load(far_a), p.window(ring_a, (0, slot), (128, 32)))
        p.store(p.load(far_b), p.window(ring_b, (slot, 0), (32, 128)))
        far_a.move(0, 32)
        far_b.move(32, 0)

    for slot in (0, 32, 64):
        fill(slot)
    acc = p.state(p.zeros((128, 128)))
    for at in p.steps(a.shape[1], 32):
        x = p.load(p.window(ring_a, (0, at % 128), (128, 32), map=A))
        y = p.load(p.window(ring_b, (at % 128, 0), (32, 128), map=B))
        acc.set(p.mma(x, y, acc, map=C))
        fill((at + 96) % 128)
    p.store(acc, p.window(c, (i, j), (128, 128)))
