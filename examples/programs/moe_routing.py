"""Routing of a mixture of experts: the k experts with the largest logits for each token, and their softmax.

Run: autosched tune --program examples/programs/moe_routing.py --size t=8192 --size e=64 --size k=2
"""

from autosched.tile import InOut, Input, Output, program

INFINITY = float("inf")
LOG2_E = 1.4426950408889634


@program(
    logits=Input("t e", "f32"), expert=Output("t k", "i32"), weight=Output("t k", "f32"), tokens=InOut("e", "i32"),
)  # fmt: skip
def moe_routing(p, logits, expert, weight, tokens):
    """top-k of softmax(logits), with weights that add up to 1; ``tokens`` counts the tokens of each expert"""
    (t, e), k = logits.shape, expert.shape[1]
    rows = p.choose(rows=(4, 8, 16, 32))
    (i,) = p.blocks((t,), (rows,))
    tile = p.load(p.window(logits, (i, 0), (rows, p.cover(e))), padding=-INFINITY)
    chosen = p.top_k(tile, k, 1)
    shares = [p.exp2((value - chosen[0][0]) * LOG2_E) for value, _ in chosen]
    total = shares[0]
    for share in shares[1:]:
        total = total + share
    for number, ((_, index), share) in enumerate(zip(chosen, shares, strict=True)):
        p.store(index, p.window(expert, (i, number), (rows, 1)))
        p.store(share / total, p.window(weight, (i, number), (rows, 1)))
        inside = p.where(p.rows(i, rows) < t, index, -1)
        p.atomic_add(p.full((1, rows), 1, "i32"), p.window(tokens, p.transpose(inside), (1, rows)))
