"""Random tile programs that pick elements by index (such as argmax), gather, and scan."""

from __future__ import annotations

import random

from random_programs import program_of

from search_spaces.programs.builder import Builder, InOut, Input, Output, Program
from search_spaces.programs.language.functions import PICKS, SCANS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import Tile

SHAPES = (
    (32, 32), (16, 48), (48, 16), (8, 128), (128, 8), (96, 3), (2, 33), (33, 2), (5, 15), (1, 96), (1, 1024), (1024, 1),
    (16, 256), (64, 64),
)  # fmt: skip
STEPS = ("pick", "pick", "scan", "scan", "top", "turn", "where", "product", "sum", "cast", "gather", "gather", "fetch")


def shape_of(seed: int) -> tuple[int, int]:
    """Return the shape of the program's tile. The shape of the array must be a multiple of this shape."""
    return random.Random(seed).choice(SHAPES)


def random_joins(seed: int) -> Program:
    """Return a program of up to six steps on one tile, with or without a loop over the columns of its array.

    Inputs are small integers, so all results except matrix products are exact.
    """
    rng = random.Random(seed)
    rows, columns = shape_of(seed)
    loop, integers = rng.random() < 0.4, rng.random() < 0.4
    steps = [
        (rng.choice(STEPS), rng.random(), rng.randint(0, 1), rng.random() < 0.4, rng.random() < 0.4)
        for _ in range(rng.randint(1, 6))
    ]
    product = (rows, columns) == (64, 64)

    def joined(p: Builder, tiles: list[Tile], i: Index, j: Index, a: Array, b: Array, table: Array) -> Tile:
        for kind, choice, dim, one, other in steps:
            x = tiles[int(choice * len(tiles))]
            exact = x.value.dtype.name == "i32"
            if kind == "pick":
                size = None if one or rows * columns % 4 or (rows, columns)[dim] % 4 else (rows, columns)[dim] // 4
                name = sorted(PICKS)[other]
                at = getattr(p, name)(x, dim, first=int(choice * 100), size=size)
                tiles.append(p.broadcast(at, dim, (rows, columns)[dim]).cast("f32" if not exact else "i32"))
            elif kind == "scan":
                kinds = [name for name in SCANS if name.endswith("si") == exact and name != "mul"]
                name = "add" if choice < 0.6 else kinds[int(choice * len(kinds))]
                tiles.append(p.scan(name, x, dim, exclusive=one, reverse=other))
                if name != "add" and one:
                    tiles[-1] = p.maximum(p.minimum(tiles[-1], 99), -99)
            elif kind == "top":
                best, at = p.top_k(x, min(3, (rows, columns)[dim]), dim)[-1]
                result = best + at.cast("i32" if exact else "f32")
                tiles.append(p.broadcast(result, dim, (rows, columns)[dim]))
            elif kind == "turn":
                tiles.append(p.transpose(p.cumsum(p.transpose(x), 1 - dim, exclusive=one)))
            elif kind == "where":
                tiles.append(p.where(p.columns(0, columns) % 3 < 2, x, tiles[0] if not exact else x))
            elif kind == "product" and product and not exact:
                left = p.maximum(p.minimum(x, 4.0), -4.0).cast("f16")
                tiles.append(p.mma(left, p.load(p.window(b, (0, 0), (64, 64)))))
            elif kind == "gather":
                at = p.maximum(p.minimum(x if exact else x.cast("i32"), 99), -2)
                indices = (at, p.columns(0, columns)) if dim == 0 else (p.rows(1, rows), at)
                result = p.load(p.window(a, indices, (rows, columns)), padding=-3)
                tiles.append(result if exact else result.cast("f32"))
            elif kind == "fetch":
                old = p.atomic_add(x if exact else x.cast("i32"), p.window(table, (i, j), (rows, columns)))
                tiles.append(old if exact else old.cast("f32"))
            elif kind == "sum":
                tiles.append(x + p.reduction("add", x, dim))
            elif kind == "cast":
                tiles.append(p.maximum(p.minimum(x, 999), -999))
                tiles[-1] = tiles[-1] if exact or choice > 0.5 else tiles[-1].cast("i32").cast("f32")
        return tiles[-1] if tiles[-1].value.dtype.name == "f32" else tiles[-1].cast("f32")

    def body(p: Builder, a: Array, b: Array, table: Array, out: Array) -> None:
        m, n = a.shape
        if loop:
            (i,) = p.blocks((m,), (rows,))
            carried, best = p.state(p.zeros((rows, 1))), p.state(p.full((rows, 1), -1, "i32"))
            for j in p.steps(n, columns):
                tile = p.load(p.window(a, (i, j), (rows, columns)))
                x = tile if integers else tile.cast("f32")
                result = joined(p, [x], i, j, a, b, table)
                total = p.cumsum(tile.cast("f32"), 1) + carried
                carried.set(carried + p.reduction("add", tile.cast("f32"), 1))
                best.set(p.maximum(best, p.argmax(tile, 1, first=j)))
                p.store(result + total + best.read().cast("f32"), p.window(out, (i, j), (rows, columns)))
            p.atomic_add(p.full((rows, 1), 0, "i32"), p.window(table, (i, 0), (rows, 1)))
            return
        i, j = p.blocks((m, n), (rows, columns))
        tile = p.load(p.window(a, (i, j), (rows, columns)))
        x = tile if integers else tile.cast("f32")
        p.atomic_add(p.full((rows, columns), 0, "i32"), p.window(table, (i, j), (rows, columns)))
        p.store(joined(p, [x], i, j, a, b, table), p.window(out, (i, j), (rows, columns)))

    return program_of(
        body,
        f"joins_{seed}",
        a=Input("m n", "i32"),
        b=Input("fixed fixed", "f16"),
        table=InOut("m n", "i32"),
        out=Output("m n", "f32"),
    )
