"""Products accumulate into loop states in place. A state is copied only if the state's old value is read later."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from cases import representative

from autosched.programs.loading import problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template

A100, H100 = device("a100"), device("h100")
SIZES = {"m": 40, "n": 72, "k": 88}


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def plain(p: Builder, a: Array, b: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for s in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64))), acc))
    p.store(acc * 2.0, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def read_current_and_previous(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Read the accumulator of the current and of the previous iteration."""
    i, j = p.blocks(out.shape, (64, 64))
    acc, last = p.state(p.zeros((64, 64))), p.state(p.zeros((64, 64)))
    for s in p.steps(a.shape[1], 32):
        before = acc.read()
        acc.set(p.mma(p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64))), before))
        last.set(acc.read() - before * 0.5)
    p.store(acc + last, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def added_to_after_the_loop(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Add a product to the state after the loop, and also read the state itself."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    x, y = p.window(a, (i, 0), (64, 32)), p.window(b, (0, j), (32, 64))
    for _ in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(x), p.load(y), acc))
        x.move(0, 32)
        y.move(32, 0)
    first = p.mma(p.load(p.window(a, (i, 0), (64, 32))), p.load(p.window(b, (0, j), (32, 64))), acc)
    p.store(first - acc.read() * 0.25, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def added_to_in_every_iteration(p: Builder, a: Array, b: Array, out: Array) -> None:
    """In every iteration, add a product to a value that was computed before the loop."""
    i, j = p.blocks(out.shape, (64, 64))
    ones = p.exp2(p.zeros((64, 64)))
    acc = p.state(p.zeros((64, 64)))
    for s in p.steps(a.shape[1], 32):
        added = p.mma(p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64))), ones)
        acc.set(p.maximum(acc, added))
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def scaled(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Scale the state before the product, as in attention."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for s in p.steps(a.shape[1], 32):
        left = p.load(p.window(a, (i, s), (64, 32)))
        acc.set(p.mma(left, p.load(p.window(b, (s, j), (32, 64))), acc * 0.5))
    p.store(acc, p.window(out, (i, j), (64, 64)))


PROGRAMS = [plain, read_current_and_previous, added_to_after_the_loop, added_to_in_every_iteration, scaled]


@pytest.mark.parametrize(
    ("program", "where"),
    representative(
        itertools.product(PROGRAMS, (A100, H100)),
        "plain-a100",
        "read_current_and_previous-h100",
        "added_to_after_the_loop-a100",
        "added_to_in_every_iteration-h100",
        "scaled-a100",
    ),
    ids=lambda value: value.name,
)
def test_sums_are_right(program: Program, where: object) -> None:
    p = problem(program, **SIZES)
    inputs = p.random_inputs(3)
    expected, bounds = p.expected(inputs)
    for schedule in template(program).space(p, where).valid.sample(2, 5):  # type: ignore[arg-type]
        run = emulate(template(program).kernel(p, schedule, where), inputs, time_limit=60.0)  # type: ignore[arg-type]
        assert run.status == "ok", (run.reason, schedule)
        assert np.all(np.abs(run.outputs["out"] - expected["out"]) <= bounds["out"]), schedule


@pytest.mark.parametrize(("program", "copies"), [(plain, 0), (scaled, 0), (added_to_after_the_loop, 1)])
def test_sums_are_stored_in_loop_states(program: Program, copies: int) -> None:
    """A product adds to the state's own register array, unless the state's old value is read later."""
    p = problem(program, **SIZES)
    (schedule,) = template(program).space(p, A100).sample(1, 1)
    assert len(re.findall(r"float acc\d+\[", template(program).kernel(p, schedule, A100).source)) == copies
