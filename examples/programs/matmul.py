"""Matmul as a tile program, which competes with the hand-written templates in one search.

`autosched tune --program examples/programs/matmul.py --size m=.. --size n=.. --size k=..` searches the program and the
templates.
"""

from functools import cache

from autosched.tile import Input, Output, ProgramTemplate, program

ENDS = ("none", "relu", "silu")


@cache
def matmul_of(dtype, out_type, order_a, order_b, biased, end):
    """out[batch] = end(a[batch] @ b[batch] + bias)"""
    turned_a, turned_b = order_a == "col", order_b == "col"

    def matmul_program(p, a, b, *rest):
        *bias, out = rest
        batch, m, n = out.shape
        k = a.shape[1 if turned_a else 2]
        bm, bn, bk = p.choose(bm=(64, 128, 256), bn=(64, 128, 256), bk=(32, 64))
        each, i, j = p.blocks((batch, m, n), (1, bm, bn))
        x = p.window(a[each], (i, 0), (bm, bk), turned=turned_a)
        y = p.window(b[each], (0, j), (bk, bn), turned=turned_b)
        acc = p.state(p.zeros((bm, bn)))
        for _ in p.steps(k, bk):
            acc.set(p.mma(p.load(x), p.load(y), acc))
            x.move(0, bk)
            y.move(bk, 0)
        result = acc.read()
        if biased:
            row = p.load(p.window(bias[0], (0, j), (1, bn)))
            result = result + (row if out_type == "f32" else row.cast("f32"))
        if end == "relu":
            result = p.maximum(result, 0.0)
        elif end == "silu":
            result = result * p.sigmoid(result)
        p.store(result if out_type == "f32" else result.cast(out_type), p.window(out[each], (i, j), (bm, bn)))

    arrays = {
        "a": Input("batch k m" if turned_a else "batch m k", dtype),
        "b": Input("batch n k" if turned_b else "batch k n", dtype),
        **({"bias": Input("n", out_type)} if biased else {}),
        "out": Output("batch m n", out_type),
    }
    return program(**arrays)(matmul_program)


def of_matmul(q):
    """Return the program and its sizes for a Matmul, or the reason why no program computes it."""
    bias, _, end = q.epilogue.rpartition("+") if "+" in q.epilogue else ("", "", q.epilogue)
    biased, end = (True, "none") if end == "bias" else (bool(bias), end)
    types = ("f16", "bf16", "f32")
    if q.a not in types or q.out not in types or q.acc != "f32":
        return f"the program supports f16, bf16 and f32 accumulated in f32, not {q.a} accumulated in {q.acc}"
    if end not in ENDS or q.reduction != "none" or q.scale != "none":
        return "the program supports only the epilogues bias, relu and silu"
    tile_program = matmul_of(q.a, q.out, q.order_a, q.order_b, biased, end)
    return tile_program, {"batch": q.batch, "m": q.m, "n": q.n, "k": q.k}


MATMUL = ProgramTemplate("matmul_program", "matmul", "matmul as a tile program", of_matmul)
