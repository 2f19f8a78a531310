"""Random tile programs: matmuls with random epilogues, and random operations on tiles of one shape."""

from __future__ import annotations

import random
from collections.abc import Callable, Container

from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.builder import Argument, Builder, Input, Output, Program, program, wg_map
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import Tile

UNARY = ("tanh", "sigmoid", "absolute")
OPERATIONS = (
    "mask",
    "convert",
    "convert",
    "turn",
    "add",
    "maximumf",
    "minimumf",
    "less",
    "tanh",
    "absolute",
    "subtract",
    "multiply",
)
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def random_program(seed: int) -> Program:
    """Return a program with one or two matmuls in random memory orders, and up to six functions of tiles."""
    rng = random.Random(seed)
    transposed_a, transposed_b, twice = (rng.random() < 0.4 for _ in range(3))
    typed, out_type = rng.choice(("f16", "bf16")), rng.choice(("f16", "bf16", "f32"))
    steps = [
        (rng.choice((*UNARY, *BINARY, *BINARY)), rng.random(), rng.random(), round(rng.uniform(-2, 2), 3))
        for _ in range(rng.randint(0, 6))
    ]
    depth = rng.choice((16, 32, 48))

    def body(p: Builder, a: Array, b: Array, row: Array, column: Array, tile: Array, out: Array) -> None:
        m, k = reversed(a.shape) if transposed_a else a.shape
        n = b.shape[0] if transposed_b else b.shape[1]
        bm, bn = p.choose(bm=(32, 64, 96), bn=(16, 64))  # type: ignore[misc]
        i, j = p.blocks((m, n), (bm, bn))
        x = p.window(a, (0, i) if transposed_a else (i, 0), (depth, bm) if transposed_a else (bm, depth))
        y = p.window(b, (j, 0) if transposed_b else (0, j), (bn, depth) if transposed_b else (depth, bn))
        states = [p.state(p.zeros((bm, bn))) for _ in range(1 + twice)]
        for _ in p.steps(k, depth):
            for state in states:
                left, right = p.load(x), p.load(y)
                left, right = p.transpose(left) if transposed_a else left, p.transpose(right) if transposed_b else right
                state.set(p.mma(left, right, state))
            x.move(*((depth, 0) if transposed_a else (0, depth)))
            y.move(*((0, depth) if transposed_b else (depth, 0)))
        tiles: list[Tile] = [state.read() for state in states]
        tiles.append(p.broadcast(p.load(p.window(row, (0, j), (1, bn))), dim=0, size=bm))
        loaded = p.load(p.window(column, (i, 0), (bm, 1), column=True)).cast("f32")
        tiles.append(p.broadcast(loaded, dim=1, size=bn))
        tiles.append(p.load(p.window(tile, (i, j), (bm, bn))).cast("f32"))
        for function, first, second, number in steps:
            left_tile = tiles[int(first * len(tiles))]
            if function in UNARY:
                tiles.append(p.map(function, left_tile))
            elif second < 0.25:
                tiles.append(p.map(function, left_tile, number))
            else:
                tiles.append(p.map(function, left_tile, tiles[int(second * len(tiles))]))
        p.store((tiles[-1] + tiles[0] if steps else tiles[0]).cast(out_type), p.window(out, (i, j), (bm, bn)))

    return program_of(
        body,
        f"random_{seed}",
        a=Input("k m" if transposed_a else "m k", typed),
        b=Input("n k" if transposed_b else "k n", typed),
        row=Input("n", "f32"),
        column=Input("m", "bf16"),
        tile=Input("m n", "f16"),
        out=Output("m n", out_type),
    )


SHAPES = ((32, 64), (64, 32), (16, 128), (48, 96), (96, 24), (8, 256))
MAPS = ([4, 1], [2, 2], [1, 4], [4, 2], [2, 4])


def random_tiles(seed: int) -> Program:
    """Return a program with up to ten operations on tiles of one shape, and maybe a loop that carries sums and maxima.

    The operations are functions, masks, reductions and broadcasts of rows, columns and groups, transposes, and
    conversions to random maps.
    """
    rng = random.Random(seed)
    rows, columns = rng.choice(SHAPES)
    loop, typed, out_type = rng.random() < 0.5, rng.choice(("f16", "f32", "bf16")), rng.choice(("f16", "f32"))
    steps = [(rng.choice(OPERATIONS), rng.random(), rng.random(), rng.randint(0, 1)) for _ in range(rng.randint(1, 10))]
    grid = next(g for g in rng.sample(MAPS, len(MAPS)) if rows % g[0] == 0 and columns % g[1] == 0)
    count = grid[0] * grid[1]

    def layout(pick: float) -> WgMap | None:
        fits = [g for g in MAPS if g[0] * g[1] == count and rows % g[0] == 0 and columns % g[1] == 0]
        g = fits[int(pick * len(fits))]
        return wg_map(g, [rows // g[0], columns // g[1]]) if pick < 0.8 else None

    def applied(p: Builder, tiles: list[Tile], i: Index, j: Index, m: int, n: int) -> Tile:
        for kind, first, second, dim in steps:
            x = tiles[int(first * len(tiles))]
            y = tiles[int(second * len(tiles))]
            if kind == "mask":
                inside = (p.rows(i, rows) < m) & (p.columns(j, columns) < n)
                tiles.append(p.where(inside, x, round(second, 2)))
            elif kind == "convert":
                tiles.append(p.convert_layout(x, layout(second)))
            elif kind == "turn":
                tiles.append(p.transpose(p.transpose(x) * 0.5))
            elif kind in ("add", "maximumf", "minimumf"):
                size = None if second < 0.5 else (rows, columns)[dim] // 4
                part = p.reduction(kind, x, dim=dim, size=size)
                tiles.append(p.broadcast(part, dim=dim, size=(rows, columns)[dim]) * 0.25)
            elif kind == "less":
                tiles.append(p.where(p.rows(i, rows) % 3 < 2, x, y))
            elif kind in UNARY:
                tiles.append(p.map(kind, x))
            else:
                tiles.append(p.map(kind, x, y))
        return tiles[-1]

    def body(p: Builder, x: Array, row: Array, column: Array, out: Array) -> None:
        m, n = x.shape
        p_i, p_j = (p.blocks((m, n), (rows, columns))) if not loop else (*p.blocks((m,), (rows,)), Index("constant", 0))
        sideways = p.load(p.window(row, (0, p_j), (1, columns)))
        down = p.load(p.window(column, (p_i, 0), (rows, 1), column=True)).cast("f32")

        def loaded(j: Index) -> list[Tile]:
            tile = p.load(p.window(x, (p_i, j), (rows, columns))).cast("f32")
            return [tile, tile + sideways, tile * down]

        if not loop:
            p.store(applied(p, loaded(p_j), p_i, p_j, m, n).cast(out_type), p.window(out, (p_i, p_j), (rows, columns)))
            return
        total, top = p.state(p.zeros((rows, 1))), p.state(p.full((rows, 1), -4.0))
        for j in p.steps(n, columns):
            value = applied(p, loaded(j), p_i, j, m, n)
            top.set(p.maximum(top, p.reduction("maximumf", value, dim=1)))
            total.set(total * 0.5 + p.reduction("add", value, dim=1))
        for j in p.steps(n, columns):
            tile = p.load(p.window(x, (p_i, j), (rows, columns))).cast("f32")
            p.store((tile * top - total).cast(out_type), p.window(out, (p_i, j), (rows, columns)))

    return program_of(body, f"tiles_{seed}", x=Input("m n", typed), row=Input("n", "f32"), column=Input("m", "bf16"),
                   out=Output("m n", out_type))  # fmt: skip


TURNS = (
    "rows", "columns", "convert", "turn", "loop", "again", "carried", "operand", "computed", "conditional", "mask",
)  # fmt: skip


def random_loops(seed: int, without: Container[int] = ()) -> Program:
    """Return a program with a loop of matmuls and other operations between them.

    The operations are:

    - scaling and shifting by sums, maxima or minima of rows and columns
    - layout conversions, transposes, masks and conditional steps
    - a nested loop
    - further matmuls, of the same operands or of computed operands

    A second loop may follow, with matmuls of the first loop's result.

    Args:
        seed: Seed of the random choices.
        without: Steps to leave out, to shrink a failing program.
    """
    rng = random.Random(seed)
    bm, bn, depth, out_type = rng.choice((32, 64)), rng.choice((16, 32, 64)), rng.choice((16, 32)), "f32"
    typed = rng.choice(("f16", "bf16"))
    steps = [(rng.choice(TURNS), rng.random(), rng.choice((0.25, 0.5))) for _ in range(rng.randint(1, 6))]
    epilogue_steps = [
        (rng.choice(("rows", "columns", "convert", "turn")), rng.random(), 0.5) for _ in range(rng.randint(0, 2))
    ]
    steps = [step for number, step in enumerate(steps) if number not in without]
    epilogue_steps = [step for number, step in enumerate(epilogue_steps, 10) if number not in without]
    chained, first_product = rng.random() < 0.4 and 20 not in without, rng.random() < 0.5
    grids = [g for g in MAPS if bm % g[0] == 0 and bn % g[1] == 0]
    count = rng.choice([g[0] * g[1] for g in grids if g[0] * g[1] <= bm // 16 * (bn // 16)] or [0])

    def layout(pick: float) -> WgMap | None:
        fits = [g for g in grids if g[0] * g[1] == count]
        if not fits or pick > 0.7:
            return None
        g = fits[int(pick / 0.7 * len(fits))]
        return wg_map(g, [bm // g[0], bn // g[1]])

    def shaped(p: Builder, x: Tile, kind: str, pick: float, by: float) -> Tile:
        """Apply an operation that needs no loads to ``x``, and return the result."""
        if kind == "rows":
            part = p.reduction("add", p.tanh(x) / bn, dim=1) if pick < 0.5 else p.reduction("maximumf", x, dim=1)
            return x * p.broadcast(p.sigmoid(part), dim=1, size=bn) + (part if pick < 0.25 else by)
        if kind == "columns":
            part = p.reduction("minimumf", x, dim=0) if pick < 0.3 else p.reduction("add", p.tanh(x) / bm, dim=0)
            return x + p.broadcast(p.tanh(part), dim=0, size=bm) * by
        if kind == "convert":
            return p.convert_layout(x, layout(pick), shared=pick > 0.9)
        return p.transpose(p.transpose(x) * by)

    def body(p: Builder, a: Array, b: Array, extra: Array, w: Array, out: Array, side: Array) -> None:
        (m, k), n, q = a.shape, b.shape[1], extra.shape[1]
        i, j = p.blocks((m, n), (bm, bn))
        acc, carried = p.state(p.zeros((bm, bn))), p.state(p.zeros((bm, 1)))
        operand = p.state(p.zeros((bm, depth), typed))
        for s in p.steps(k, depth):
            left, right = p.load(p.window(a, (i, s), (bm, depth))), p.load(p.window(b, (s, j), (depth, bn)))
            x = p.mma(left, right) if first_product else p.mma(left, right, acc * 0.5)
            for kind, pick, by in steps:
                if kind == "loop":
                    sums = p.state(p.zeros((bm, 1)))
                    for t in p.steps(q, 32):
                        tile = p.load(p.window(extra, (i, t), (bm, 32)))
                        if pick < 0.5:
                            tile = tile * p.broadcast(p.tanh(p.reduction("add", tile / bm, dim=0)), dim=0, size=bm)
                        sums.set(sums * 0.5 + p.reduction("add", tile / 32, dim=1))
                    x = x + p.broadcast(p.tanh(sums.read()), dim=1, size=bn)
                elif kind == "again":
                    x = p.mma(left, right, x) * by if pick < 0.5 else x + p.mma(left, right) * by
                elif kind == "carried":
                    carried.set(carried * by + p.reduction("add", p.tanh(x) / bn, dim=1))
                    x = x * p.broadcast(p.sigmoid(carried.read()), dim=1, size=bn)
                elif kind == "operand":
                    operand.set(left)
                    x = p.mma(operand.read(), right, x * by)
                elif kind == "computed":
                    factor = p.load(p.window(extra, (i, 0), (bm, 1)))
                    own = p.tanh(left.cast("f32") * p.broadcast(factor, dim=1, size=depth)).cast(typed)
                    x = p.mma(own, right, x * by) if pick < 0.7 else p.mma(p.tanh(own.cast("f32")).cast(typed), right)
                elif kind == "conditional":
                    with p.when((s // depth) % 2, int(pick * 2)):
                        carried.set(carried * 0.5 + by)
                    x = x + p.broadcast(carried.read(), dim=1, size=bn)
                elif kind == "mask":
                    inside = (p.rows(i, bm) % 5 < 3) & (p.columns(s, bn) % 7 < 5)
                    x = p.where(inside, x, x * by)
                else:
                    x = shaped(p, x, kind, pick, by)
            acc.set(acc * 0.5 + p.tanh(x))
        end: Tile = acc.read()
        for kind, pick, by in epilogue_steps:
            end = shaped(p, end, kind, pick, by)
        p.store(end.cast(out_type), p.window(out, (i, j), (bm, bn)))
        total = p.state(p.broadcast(carried.read(), dim=1, size=bn))
        if chained:
            for t in p.steps(q, bn):
                total.set(p.tanh(total.read()) + p.mma(end.cast(typed), p.load(p.window(w, (0, t), (bn, bn)))))
        p.store(total, p.window(side, (i, j), (bm, bn)))

    return program_of(
        body,
        f"loops_{seed}",
        a=Input("m k", typed),
        b=Input("k n", typed),
        extra=Input("m q", "f32"),
        w=Input("fixed q", typed),
        out=Output("m n", out_type),
        side=Output("m n", "f32"),
    )


def program_of(body: Callable[..., None], name: str, **arrays: Argument) -> Program:
    body.__name__ = name
    tile_program = program(**arrays)(body)
    return Program(
        tile_program.name,
        tile_program.function,
        tile_program.arguments,
        f"{tile_program.content}{name}",
        tile_program.summary,
    )
