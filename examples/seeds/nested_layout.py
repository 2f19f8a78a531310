"""The documentation example of nested_layout in IREE VectorExt, as a target of to_layout. 64 lanes are two warps."""

from autosched.layouts import NestedLayout
from autosched.tile import Input, Output, program

FULL_EXAMPLE = NestedLayout(
    subgroup_tile=(2, 1),
    batch_tile=(2, 4),
    outer_tile=(1, 1),
    thread_tile=(16, 4),
    element_tile=(1, 4),
    subgroup_strides=(1, 0),
    thread_strides=(1, 16),
)


@program(x=Input("m n", "f16"), out=Output("m n", "f16"))
def distributed(p, x, out):
    """x + 1 for tiles of 64x64, converted to the example's distribution by the cheapest conversion"""
    i, j = p.blocks(x.shape, (64, 64))
    tile = p.load(p.window(x, (i, j), (64, 64))).cast("f32") + 1.0
    p.store(p.convert_layout(tile, FULL_EXAMPLE).cast("f16"), p.window(out, (i, j), (64, 64)))


@program(x=Input("m n", "f16"), out=Output("m n", "f16"))
def through_shared_memory(p, x, out):
    """x + 1 with shared_memory_conversion, which forces a conversion through shared memory"""
    i, j = p.blocks(x.shape, (64, 64))
    tile = p.load(p.window(x, (i, j), (64, 64))).cast("f32") + 1.0
    p.store(p.convert_layout(tile, FULL_EXAMPLE, shared=True).cast("f16"), p.window(out, (i, j), (64, 64)))
