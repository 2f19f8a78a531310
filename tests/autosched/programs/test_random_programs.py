"""Random tile programs and schedules: the emulator's numbers within the interpreter's bounds, nothing to report."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched.programs.loading import problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, Tile, program
from search_spaces.programs.ir import Array
from search_spaces.programs.template import template

A100 = device("a100")
UNARY = ("tanh", "sigmoid", "absolute")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def random_program(seed: int) -> Program:
    """One or two products of random storage orders, and up to six random functions of what they and loads give."""
    rng = random.Random(seed)
    turned_a, turned_b, twice = (rng.random() < 0.4 for _ in range(3))
    typed, out_type = rng.choice(("f16", "bf16")), rng.choice(("f16", "bf16", "f32"))
    steps = [
        (rng.choice((*UNARY, *BINARY, *BINARY)), rng.random(), rng.random(), round(rng.uniform(-2, 2), 3))
        for _ in range(rng.randint(0, 6))
    ]
    depth = rng.choice((16, 32, 48))

    def body(p: Builder, a: Array, b: Array, row: Array, column: Array, tile: Array, out: Array) -> None:
        m, k = reversed(a.shape) if turned_a else a.shape
        n = b.shape[0] if turned_b else b.shape[1]
        bm, bn = p.choose(bm=(32, 64, 96), bn=(16, 64))  # type: ignore[misc]
        i, j = p.blocks((m, n), (bm, bn))
        x = p.window(a, (0, i) if turned_a else (i, 0), (depth, bm) if turned_a else (bm, depth))
        y = p.window(b, (j, 0) if turned_b else (0, j), (bn, depth) if turned_b else (depth, bn))
        states = [p.state(p.zeros((bm, bn))) for _ in range(1 + twice)]
        for _ in p.steps(k, depth):
            for state in states:
                left, right = p.load(x), p.load(y)
                left, right = p.transpose(left) if turned_a else left, p.transpose(right) if turned_b else right
                state.set(p.mma(left, right, state))
            x.move(*((depth, 0) if turned_a else (0, depth)))
            y.move(*((0, depth) if turned_b else (depth, 0)))
        made: list[Tile] = [state.read() for state in states]
        made.append(p.broadcast(p.load(p.window(row, (0, j), (1, bn))), dim=0, size=bm))
        loaded = p.load(p.window(column, (i, 0), (bm, 1), column=True)).cast("f32")
        made.append(p.broadcast(loaded, dim=1, size=bn))
        made.append(p.load(p.window(tile, (i, j), (bm, bn))).cast("f32"))
        for function, first, second, number in steps:
            left_tile = made[int(first * len(made))]
            if function in UNARY:
                made.append(p.map(function, left_tile))
            elif second < 0.25:
                made.append(p.map(function, left_tile, number))
            else:
                made.append(p.map(function, left_tile, made[int(second * len(made))]))
        p.store((made[-1] + made[0] if steps else made[0]).cast(out_type), p.window(out, (i, j), (bm, bn)))

    body.__name__ = f"random_{seed}"
    made = program(
        a=Input("k m" if turned_a else "m k", typed),
        b=Input("n k" if turned_b else "k n", typed),
        row=Input("n", "f32"),
        column=Input("m", "bf16"),
        tile=Input("m n", "f16"),
        out=Output("m n", out_type),
    )(body)
    return Program(made.name, made.function, made.arguments, f"{made.content}{seed}", made.summary)


def check(seed: int) -> None:
    rng = random.Random(-seed)
    p = problem(random_program(seed), **{name: rng.randint(1, 130) for name in "mnk"})
    own = template(p.program)
    inputs = p.random_inputs(seed)
    wanted, bounds = p.expected(inputs)
    (schedule,) = own.space(p, A100).valid.sample(1, seed)
    run = emulate(own.kernel(p, schedule, A100), inputs, time_limit=60.0)
    told = f"seed {seed}, {p.sizes}, {schedule}"
    assert run.status == "ok", (run.reason, told)
    (out,) = (o for o in p.operands() if o.role == "output")
    error = np.abs(out.dtype.load(run.outputs["out"]) - wanted["out"])
    assert np.all(error <= bounds["out"]), told


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_programs(seed: int) -> None:
    check(seed)
