"""The XeTile RFC's examples of wg_map, each with one operation. Blocks of 256x256 f32 were replaced by smaller ones."""

from autosched.tile import Input, Output, program, wg_map


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def copied(p, x, out):
    """copy of 128x128, distributed round-robin to 2x2 subgroups of 32x32"""
    i, j = p.blocks(x.shape, (128, 128))
    p.store(p.load(p.window(x, (i, j), (128, 128), map=wg_map([2, 2], [32, 32]))), p.window(out, (i, j), (128, 128)))


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def converted(p, x, out):
    """convert_layout of 128x256 from 8x4 subgroups of 16x64 to 32x1 subgroups of 4x256"""
    i, j = p.blocks(x.shape, (128, 256))
    tile = p.load(p.window(x, (i, j), (128, 256), map=wg_map([8, 4], [16, 64])))
    p.store(p.convert_layout(tile * 2.0, wg_map([32, 1], [4, 256])), p.window(out, (i, j), (128, 256)))


@program(x=Input("m n", "f32"), out=Output("parts n", "f32"))
def partly_reduced(p, x, out):
    """reduction of 256x128 to 8x128: reduction_size = 32, with 8x4 subgroups"""
    parts, n = out.shape
    i, j = p.blocks((parts, n), (8, 128))
    tile = p.load(p.window(x, (i * 32, j), (256, 128), map=wg_map([8, 4], [32, 32])))
    sums = p.reduction("add", tile, dim=0, size=32, map=wg_map([8, 4], [1, 32]))
    p.store(sums, p.window(out, (i, j), (8, 128)))


@program(x=Input("m n", "f32"), out=Output("n m", "f32"))
def transposed(p, x, out):
    """transpose of 128x64 with 8x4 subgroups, whose derived map moves data between subgroups"""
    i, j = p.blocks(x.shape, (128, 64))
    tile = p.load(p.window(x, (i, j), (128, 64), map=wg_map([8, 4], [16, 16])))
    p.store(p.transpose(tile * 2.0, map=wg_map([4, 8], [16, 16])), p.window(out, (j, i), (64, 128)))
