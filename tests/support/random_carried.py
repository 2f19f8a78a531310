"""Random tile programs. Their loops carry states of any shape, reduce both axes, store, multiply, and use shared tiles.

Inputs are small integers, so that casts between types are exact.
"""

from __future__ import annotations

import random

from random_programs import program_of

from search_spaces.programs.builder import Builder, Input, Output, Program
from search_spaces.programs.language.functions import REDUCTIONS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import State, Tile

SHAPES = (
    (32, 32),
    (16, 48),
    (48, 16),
    (64, 24),
    (8, 128),
    (128, 8),
    (96, 3),
    (2, 33),
    (33, 2),
    (5, 15),
    (1, 96),
    (16, 40),
)
TYPES = ("f16", "bf16", "f32", "i8", "u8", "e4m3", "e5m2", "i32")
FACTORS = ("f16", "bf16", "f32")
STEPS = (
    "set tile", "set column", "set row", "sum columns", "reduce rows", "reduce columns", "turn", "convert",
    "shared", "product", "product", "store", "mask", "when", "cast", "multiply", "add",
)  # fmt: skip


def random_carried(seed: int) -> Program:
    """Return a program with a loop over columns. An iteration has up to twelve random steps."""
    rng = random.Random(seed)
    rows, columns = rng.choice(SHAPES)
    typed, other = rng.choice(TYPES), rng.choice(TYPES)
    factor, out_type = rng.choice(FACTORS), rng.choice(("f16", "f32", "bf16"))
    depth = rng.choice((16, 32))
    stored = [rng.choice((factor, *TYPES)) for _ in range(2)]
    multiplies = rows % 16 == 0 and columns % 8 == 0
    steps = [(rng.choice(STEPS), rng.random(), rng.random(), rng.random()) for _ in range(rng.randint(2, 12))]
    steps = [s for s in steps if multiplies or s[0] != "product"]

    stores = [at for at, step in enumerate(steps) if step[0] == "store"]
    steps = [step for at, step in enumerate(steps) if at not in stores[1:]]  # a second store would overwrite the first

    def bounded(p: Builder, x: Tile) -> Tile:
        """Clamp numbers, so that they stay small in any number of iterations."""
        return p.minimum(p.maximum(x, -8.0), 8.0)  # type: ignore[return-value]

    def body(p: Builder, x: Array, y: Array, a: Array, b: Array, out: Array, total: Array, side: Array) -> None:
        m, n = x.shape
        k = a.shape[1]
        (i,) = p.blocks((m,), (rows,))
        tile, column, row = (
            p.state(p.zeros((rows, columns))),
            p.state(p.zeros((rows, 1))),
            p.state(p.zeros((1, columns))),
        )
        shared_tile = p.shared(rows, columns, "f32")

        def masked(v: Tile, j: Index, other: float = 0.0) -> Tile:
            return p.where((p.rows(i, rows) < m) & (p.columns(j, columns) < n), widened(p, v), other)

        def joined(kind: str, v: Tile, j: Index, dim: int) -> Tile:
            return bounded(p, p.reduction(kind, masked(v, j, REDUCTIONS[kind].start), dim=dim))

        def loaded(j: Index) -> list[Tile]:
            straight = p.load(p.window(x, (i, j), (rows, columns))).cast("f32")
            transposed = p.transpose(p.load(p.window(y, (j, i), (columns, rows)))).cast("f32")
            return [bounded(p, straight), bounded(p, transposed)]

        def multiplied(v: Tile) -> Tile:
            return v if v.value.dtype.name == factor else v.cast("f32").cast(factor)

        def chosen(pool: list[Tile], pick: float) -> Tile:
            held: list[Tile | State] = [*pool, tile, column, row]
            picked = held[int(pick * len(held))]
            return picked.read() if isinstance(picked, State) else picked

        def widened(p: Builder, v: Tile) -> Tile:
            return v + p.zeros((rows, columns)) if v.shape != (rows, columns) else v

        def stepped(j: Index, pool: list[Tile]) -> None:
            for kind, first, second, third in steps:
                v = chosen(pool, first)
                if kind == "set tile":
                    tile.set(bounded(p, tile + widened(p, v)))
                elif kind == "set column":
                    column.set(bounded(p, column + joined("add", v, j, 1)))
                elif kind == "set row":
                    row.set(bounded(p, row * 0.5 + joined("maximumf", v, j, 0)))
                elif kind == "sum columns":
                    row.set(bounded(p, joined("add", v, j, 0)))
                elif kind in ("reduce rows", "reduce columns"):
                    dim = int(kind == "reduce columns")
                    pool.append(joined(("add", "maximumf", "minimumf")[int(third * 3)], v, j, dim))
                elif kind == "turn":
                    pool.append(p.transpose(p.transpose(v) * 0.5))
                elif kind == "convert":
                    pool.append(p.convert_layout(v, shared=second < 0.3))
                elif kind == "shared":
                    p.store(masked(widened(p, v), j), p.window(shared_tile, (0, 0), (rows, columns)))
                    straight, transposed = (
                        p.window(shared_tile, (0, 0), (rows, columns)),
                        p.window(shared_tile, (0, 0), (columns, rows), turned=True),
                    )
                    pool.append(p.load(straight) if second < 0.5 else p.transpose(p.load(transposed)))
                elif kind == "product":
                    s = j if second < 0.3 else 0
                    left = multiplied(p.load(p.window(a, (i, 0), (rows, depth))))
                    right = multiplied(p.load(p.window(b, (0, s), (depth, columns))))
                    pool.append(bounded(p, p.mma(left, right) * 0.25))
                elif kind == "store":
                    p.store(widened(p, v).cast(out_type), p.window(side, (i, j), (rows, columns)))
                elif kind == "mask":
                    pool.append(p.where(p.rows(i, rows) % 3 < 2, widened(p, v), chosen(pool, second)))
                elif kind == "when":
                    with p.when((j // columns) % 2, int(third * 2)):
                        tile.set(tile * 0.5 + 1.0)
                elif kind == "cast":
                    pool.append(v.cast(("f16", "bf16")[int(third * 2)]).cast("f32"))
                elif kind == "multiply":
                    pool.append(bounded(p, v * chosen(pool, second)))
                else:
                    pool.append(v + chosen(pool, second))

        assert k >= depth
        for j in p.steps(n, columns):
            stepped(j, loaded(j))
            if not stores:
                p.store(tile.read().cast(out_type), p.window(side, (i, j), (rows, columns)))
        for j in p.steps(n, columns):
            p.store((tile + column * row).cast(out_type), p.window(out, (i, j), (rows, columns)))
        p.store(column, p.window(total, (i, 0), (rows, 1), column=True))

    return program_of(
        body,
        f"carried_{seed}",
        x=Input("m n", typed),
        y=Input("n m", other),
        a=Input("m k", stored[0]),
        b=Input("k n", stored[1]),
        out=Output("m n", out_type),
        total=Output("m", "f32"),
        side=Output("m n", out_type),
    )
