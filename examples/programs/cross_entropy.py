"""The cross entropy of logits over a vocabulary, in one pass: log(sum(exp(x))) - x[label] for each row."""

from autosched.tile import Input, Output, program

INFINITY = float("inf")
LOG2_E = 1.4426950408889634


@program(logits=Input("m n", "bf16"), label=Input("m", "i32"), loss=Output("m", "f32"))
def loss_of_rows(p, logits, label, loss):
    """cross entropy of each row of logits"""
    m, n = logits.shape
    rows, width = p.choose(rows=(1, 2, 4), width=(512, 1024, 2048))
    (i,) = p.blocks((m,), (rows,))
    wanted = p.load(p.window(label, (i, 0), (rows, 1), column=True))
    top, total, own = p.state(p.full((rows, 1), -INFINITY)), p.state(p.zeros((rows, 1))), p.state(p.zeros((rows, 1)))
    for j in p.steps(n, width):
        tile = p.load(p.window(logits, (i, j), (rows, width)), padding=-INFINITY).cast("f32")
        peak = p.maximum(top, p.reduction("maximumf", tile, dim=1))
        grown = p.exp2((top - peak) * LOG2_E)
        total.set(total * grown + p.reduction("add", p.exp2((tile - peak) * LOG2_E), dim=1))
        hit = (p.columns(j, width) == wanted) & (p.columns(j, width) < n)
        own.set(own + p.reduction("add", p.where(hit, tile, 0.0), dim=1))
        top.set(peak)
    p.store(p.log2(total) / LOG2_E + top - own, p.window(loss, (i, 0), (rows, 1), column=True))
