"""Matmul of a mixture-of-experts layer: one array has the expert of each tile of rows, another the token of each row.

The rows of each expert are padded to whole tiles. Padding rows have the token index -1.

Run: autosched tune --program examples/programs/moe_matmul.py --size t=2048 --size k=2048 --size n=1024
    --size e=64 --size rows=8192 --size tiles=128
"""

from autosched.tile import Input, Output, program


@program(
    x=Input("t k", "f16"), w=Input("e k n", "f16"), token=Input("rows", "i32"), expert=Input("tiles", "i32"),
    out=Output("rows n", "f16"),
)  # fmt: skip
def moe_matmul(p, x, w, token, expert, out):
    """x[token[i]] @ w[e] for each row i, where e is the expert of the row's tile"""
    (rows, n), k, bm = out.shape, x.shape[1], 64
    bn, bk = p.choose(bn=(64, 128), bk=(32, 64))
    i, j = p.blocks((rows, n), (bm, bn))
    number = p.load_scalar(expert, i // bm, high=w.shape[0] - 1)
    tokens = p.load(p.window(token, (i, 0), (bm, 1), column=True), padding=-1)
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, bk):
        left = p.load(p.window(x, (tokens, at), (bm, bk)))
        acc.set(p.mma(left, p.load(p.window(w[number], (at, j), (bk, bn))), acc))
    p.store(acc.read().cast("f16"), p.window(out, (i, j), (bm, bn)))
