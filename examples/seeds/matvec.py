"""IREE issue 22153: a matvec whose reduction is tiled by 512, without and with an expanded innermost dimension.

Without expansion, a thread keeps 8 sums for each row across iterations. With expansion (512 -> 64, 8), it adds the 8
products up in each iteration and keeps one sum. A subgroup of 64 lanes is two warps.
"""

from autosched.layouts import LoweringConfig
from autosched.tile import Input, Output, program

CONFIG = LoweringConfig.parse(
    "#iree_gpu.lowering_config<{lane_basis = [[1, 1, 64], [0, 1, 2]], partial_reduction = [0, 0, 512], "
    "subgroup_basis = [[1, 1, 1], [0, 1, 2]], thread = [0, 0, 8], workgroup = [2, 1, 0]}>"
)


def products(p, x, w, i, j):
    """Yield each iteration's products of two rows of x with a row of w, distributed over registers by the config."""
    rows, line = p.window(x, (i, 0), (2, 512)), p.window(w, (j, 0), (1, 512))
    for _ in p.steps(x.shape[1], 512):
        product = p.load(rows).cast("f32") * p.load(line).cast("f32")
        yield p.convert_layout(product, CONFIG.to_nested((0, 2)))
        rows.move(0, 512)
        line.move(0, 512)


@program(x=Input("m k", "f16"), w=Input("n k", "f16"), out=Output("m n", "f32"))
def matvec_plain(p, x, w, out):
    """x @ w^T with partial_reduction = [0, 0, 512]"""
    i, j = p.blocks(out.shape, (2, 1))
    acc = p.state(p.zeros((2, 512)))
    for product in products(p, x, w, i, j):
        acc.set(acc + product)
    p.store(p.reduction("add", acc, dim=1), p.window(out, (i, j), (2, 1)))


@program(x=Input("m k", "f16"), w=Input("n k", "f16"), out=Output("m n", "f32"))
def matvec_expanded(p, x, w, out):
    """x @ w^T with partial_reduction = [0, 0, 64, 0] and expand_dims = [0, 0, 0, 8]"""
    i, j = p.blocks(out.shape, (2, 1))
    acc = p.state(p.zeros((2, 64)))
    for product in products(p, x, w, i, j):
        acc.set(acc + p.reduction("add", product, dim=1, size=8))
    p.store(p.reduction("add", acc, dim=1), p.window(out, (i, j), (2, 1)))
