"""IREE VectorExt: the example of nested_layout, as the target of to_layout. A subgroup of 64 lanes is two warps."""

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
    """64x64 in the distribution of the example, by the shortest route"""
    i, j = p.blocks(x.shape, (64, 64))
    tile = p.load(p.window(x, (i, j), (64, 64))).cast("f32") + 1.0
    p.store(p.convert_layout(tile, FULL_EXAMPLE).cast("f16"), p.window(out, (i, j), (64, 64)))


@program(x=Input("m n", "f16"), out=Output("m n", "f16"))
def through_shared_memory(p, x, out):
    """the same with shared_memory_conversion, which forces the route"""
    i, j = p.blocks(x.shape, (64, 64))
    tile = p.load(p.window(x, (i, j), (64, 64))).cast("f32") + 1.0
    p.store(p.convert_layout(tile, FULL_EXAMPLE, shared=True).cast("f16"), p.window(out, (i, j), (64, 64)))
