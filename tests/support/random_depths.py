"""Random tile programs that multiply loaded and computed operands of arbitrary size along k."""

from __future__ import annotations

import random

from random_programs import program_of

from search_spaces.programs.builder import Builder, Input, Output, Program
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import Tile

FACTORS = ("f16", "bf16", "i8", "f32")
FORMS = ("loaded", "scaled", "masked", "one", "reduced", "reduced", "gathered", "shared")


def random_depths(seed: int, typed: str | None = None) -> Program:
    """Return a program of one or two matrix products whose tiles have depths (sizes along k) from 3 to 80.

    The first product may be in a loop. Each of its operands is loaded, computed from loads element by element, reduced,
    gathered, or kept in shared memory. A second product may multiply a function of the first one by a loaded tile or
    its transpose.

    Args:
        seed: Seed of the random choices.
        typed: Type of the factors; drawn by default.
    """
    rng = random.Random(seed)
    drawn = rng.choice(FACTORS)
    typed = drawn if typed is None else typed
    exact, sums = typed == "i8", "i32" if typed == "i8" else "f32"
    depth = rng.choice((rng.randint(3, 80), 8 * rng.randint(1, 10), 20, 24, 33, 40, 72))
    bm, bn = rng.choice((16, 32, 48)), rng.choice((8, 16, 24, 40))
    forms = rng.choice(FORMS), rng.choice(FORMS)
    transposed, loop, chained, steps = (rng.random() < 0.5 for _ in range(4))

    def operand(p: Builder, form: str, x: Array, at: tuple[Index, Index], shape: tuple[int, int], k: int) -> Tile:
        """Return a tile whose second dimension is the depth."""
        if form == "gathered":
            rows = p.rows(at[0], shape[0])
            return p.load(p.window(x, (rows - rows % 2, at[1]), shape))
        tile = p.load(p.window(x, at, shape), padding=2.0 if form == "one" else 0.0)
        if form == "loaded":
            return tile
        wide = tile.cast(sums)
        if form == "scaled":
            wide = wide * 2 + (p.columns(0, shape[1]) % 3).cast(sums)
        elif form == "masked":
            wide = p.where(p.columns(0, shape[1]) % 5 < 4, wide, 1)
        elif form == "one":  # no element is zero
            wide = wide * wide % 7 + 1 if exact else p.sigmoid(wide)
        elif form == "reduced":
            total = p.reduction("add", wide, dim=1)
            wide = wide - (total >> 4) if exact else wide - total / shape[1]
        if x.name == "a":  # a has zeros beyond the depth, so b's values there do not matter
            wide = p.where(p.columns(at[1], shape[1]) < k, wide, 0)
        converted = wide.cast(typed)
        if form == "shared" and not exact:
            shared_tile = p.shared(*shape, typed)
            p.store(converted, p.window(shared_tile, (0, 0), shape))
            return p.load(p.window(shared_tile, (0, 0), shape))
        return converted

    def body(p: Builder, a: Array, b: Array, c: Array, out: Array) -> None:
        (m, n), k = out.shape, a.full[1]
        i, j = p.blocks((m, n), (bm, bn))
        acc = p.state(p.zeros((bm, bn), sums))

        def multiply(at: Index) -> None:
            left = operand(p, forms[0], a, (i, at), (bm, depth), k)
            right = p.transpose(operand(p, forms[1], b, (j, at), (bn, depth), k))
            acc.set(p.mma(left, right, acc, tf32=typed == "f32"))

        if loop:
            for at in p.steps(k, depth):
                multiply(at)
        else:
            multiply(Index("constant", 0))
        z = acc.read()
        if chained:
            inside = p.where(p.columns(j, bn) < n, z, 0)
            factor = (inside & 7 if exact else p.tanh(inside)).cast(typed)
            other = p.load(p.window(c, (0, 0), (bn, bn)))
            z = p.mma(factor, p.transpose(other) if transposed else other, z if steps else None, tf32=typed == "f32")
        p.store(z, p.window(out, (i, j), (bm, bn)))

    return program_of(
        body,
        f"depths_{seed}" + ("" if typed == drawn else f"_{typed}"),
        a=Input("m k", typed),
        b=Input("n k", typed),
        c=Input("n2 n3", typed),
        out=Output("m n", sums),
    )
