"""Rows of a table by index: embedding lookup, the gradient of the lookup, and writing to a key-value cache.

Run: autosched tune --program examples/programs/embedding.py:embedding
    --size tokens=4096 --size words=32000 --size d=1024
"""

from autosched.tile import InOut, Input, Output, program


def row_ids(p, ids, i, bm):
    """Return the token ids of a block as a column. Rows after the last token get -1, which selects no row."""
    return p.load(p.window(ids, (i, 0), (bm, 1), column=True), padding=-1)


@program(ids=Input("tokens", "i32"), table=Input("words d", "f16"), out=Output("tokens d", "f16"))
def embedding(p, ids, table, out):
    """table[ids], and zeros for an id outside the table"""
    bm, bn = p.choose(bm=(4, 8, 16, 32), bn=(128, 256))
    i, j = p.blocks(out.shape, (bm, bn))
    p.store(p.load(p.window(table, (row_ids(p, ids, i, bm), j), (bm, bn))), p.window(out, (i, j), (bm, bn)))


@program(ids=Input("tokens", "i32"), gradient=Input("tokens d", "f32"), table=InOut("words d", "f32"))
def embedding_gradient(p, ids, gradient, table):
    """table[ids] += gradient, with atomic additions in any order"""
    bm, bn = p.choose(bm=(4, 8, 16, 32), bn=(128, 256))
    i, j = p.blocks(gradient.shape, (bm, bn))
    rows = p.load(p.window(gradient, (i, j), (bm, bn)))
    p.atomic_rmw("addf", rows, p.window(table, (row_ids(p, ids, i, bm), j), (bm, bn)))


@program(slots=Input("tokens", "i32"), keys=Input("tokens d", "f16"), cache=InOut("places d", "f16"))
def cache_append(p, slots, keys, cache):
    """cache[slots] = keys; all other slots are unchanged"""
    bm, bn = p.choose(bm=(4, 8, 16, 32), bn=(128, 256))
    i, j = p.blocks(keys.shape, (bm, bn))
    p.store(p.load(p.window(keys, (i, j), (bm, bn))), p.window(cache, (row_ids(p, slots, i, bm), j), (bm, bn)))
