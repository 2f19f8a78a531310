"""Loops may carry states of any shape: each state has a distribution that fits it, and all kernels are correct."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

A100 = device("a100")


def lowered(p: ProgramProblem, schedules: int = 20, emulated: int = 1) -> None:
    """Lower some schedules, and emulate the first ones."""
    own = template(p.program)
    for number, schedule in enumerate(own.space(p, A100).sample(schedules, 1)):
        kernel = own.kernel(p, schedule, A100)
        if number < emulated:
            assert outcome(p, kernel) == "ok", schedule


def both_axes(p: Builder, x: Array, out: Array) -> None:
    """Carry a row of sums, and a column of sums whose update reads the row."""
    (i,) = p.blocks((x.shape[0],), (16,))
    line, column = p.state(p.zeros((1, 8))), p.state(p.zeros((16, 1)))
    for j in p.steps(x.shape[1], 8):
        v = p.load(p.window(x, (i, j), (16, 8)))
        column.set(column + p.reduction("add", v * line, dim=1))
        line.set(line + p.reduction("add", v, dim=0))
    p.store(column + line, p.window(out, (i, 0), (16, 8)))


def converted_column(p: Builder, x: Array, out: Array) -> None:
    """Convert the layout of a column that the loop does not assign, and reduce a tile that the loop carries."""
    (i,) = p.blocks((x.shape[0],), (48,))
    line, column, tile = p.state(p.zeros((1, 8))), p.state(p.full((48, 1), 2.0)), p.state(p.zeros((48, 8)))
    for j in p.steps(x.shape[1], 8):
        v, before = p.load(p.window(x, (i, j), (48, 8))), tile.read()
        line.set(line + p.reduction("add", v + p.reduction("add", before, dim=0), dim=0))
        tile.set(before + p.convert_layout(column))
    p.store(line + tile, p.window(out, (i, 0), (48, 8)))


def set_twice(p: Builder, x: Array, out: Array) -> None:
    """Assign a state twice in an iteration, with values whose distributions are chosen independently."""
    (i,) = p.blocks((x.shape[0],), (32,))
    state = p.state(p.zeros((32, 8)))
    for j in p.steps(x.shape[1], 8):
        v = p.load(p.window(x, (i, j), (32, 8)))
        state.set(p.convert_layout(state + v))
        state.set(p.transpose(p.convert_layout(p.transpose(state * 0.5))))
    p.store(state, p.window(out, (i, 0), (32, 8)))


def as_program(function: Callable[[Builder, Array, Array], None]) -> Program:
    return program(x=Input("m n", "f32"), out=Output("m n", "f32"))(function)


@pytest.mark.parametrize("function", [both_axes, converted_column, set_twice])
def test_every_schedule_is_right(function: Callable[[Builder, Array, Array], None]) -> None:
    p = problem(as_program(function), m=96, n=8)
    inference = choices_of(p).first
    for id_, spread in inference.natural.items():
        assert spread.shape == inference.definitions[id_].result.shape
    lowered(p)


@pytest.mark.parametrize("typed", ["f16", "f32"])
def test_products_may_be_stored_in_every_iteration(typed: str) -> None:
    @program(x=Input("m k", typed), w=Input("k n", typed), out=Output("m n", "f32"))
    def stored(p: Builder, x: Array, w: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (32,))
        left = p.load(p.window(x, (i, 0), (32, 32)))
        for j in p.steps(w.shape[1], 32):
            p.store(p.mma(left, p.load(p.window(w, (0, j), (32, 32)))), p.window(out, (i, j), (32, 32)))

    lowered(problem(stored, m=40, k=32, n=72))


def test_a_tile_from_outside_may_be_stored_in_every_iteration() -> None:
    @program(x=Input("m k", "f16"), w=Input("k bn", "f16"), out=Output("m n", "f32"))
    def repeated(p: Builder, x: Array, w: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (32,))
        tile = p.mma(p.load(p.window(x, (i, 0), (32, 32))), p.load(p.window(w, (0, 0), (32, 32))))
        for j in p.steps(out.shape[1], 32):
            p.store(tile, p.window(out, (i, j), (32, 32)))

    lowered(problem(repeated, m=40, k=32, bn=32, n=72))


def test_a_sum_over_two_loops_is_joined_in_every_iteration() -> None:
    """If lanes were combined only after the inner loop, the next outer iteration would add the combined sum again."""

    @program(x=Input("m n", "f32"), out=Output("m", "f32"))
    def nested(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (16,))
        total = p.state(p.zeros((16, 1)))
        for j in p.steps(x.shape[1], 64):
            for k in p.steps(64, 32):
                total.set(total + p.reduction("add", p.load(p.window(x, (i, j + k), (16, 32))), dim=1))
        p.store(total, p.window(out, (i, 0), (16, 1), column=True))

    p = problem(nested, m=16, n=128)
    assert not choices_of(p).first.sums
    lowered(p, 4)


def through_a_shared_tile(transposed: bool, padding: float) -> Program:
    @program(x=Input("m n", "f32"), out=Output("m", "f32"))
    def summed(p: Builder, x: Array, out: Array) -> None:
        bn = p.choose(bn=(32, 64))
        assert isinstance(bn, int)
        (i,) = p.blocks((x.shape[0],), (16,))
        tile = p.shared(16, bn, "f32")
        p.store(p.load(p.window(x, (i, 0), (16, bn)), padding=padding), p.window(tile, (0, 0), (16, bn)))
        shape = (bn, 16) if transposed else (16, bn)
        back = p.load(p.window(tile, (0, 0), shape, turned=transposed))
        rows = p.transpose(back) if transposed else back
        p.store(p.reduction("add", rows, dim=1), p.window(out, (i, 0), (16, 1), column=True))

    return summed


@pytest.mark.parametrize("transposed", [False, True])
def test_padding_follows_a_shared_tile(transposed: bool) -> None:
    p = problem(through_a_shared_tile(transposed, 1.0), m=16, n=20)
    assert "add includes 1 in columns" in (template(p.program).why_not(p, A100) or "")
    lowered(problem(through_a_shared_tile(transposed, 0.0), m=16, n=20), 5)


def test_a_mask_of_another_part_of_a_shared_tile_does_not_cover_its_padding() -> None:
    @program(x=Input("m n", "f32"), out=Output("m", "f32"))
    def half(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (16,))
        tile = p.shared(16, 64, "f32")
        p.store(p.load(p.window(x, (i, 0), (16, 64)), padding=1.0), p.window(tile, (0, 0), (16, 64)))
        back = p.load(p.window(tile, (0, 32), (16, 32)))
        masked = p.where(p.columns(0, 32) < x.shape[1], back, 0.0)
        p.store(p.reduction("add", masked, dim=1), p.window(out, (i, 0), (16, 1), column=True))

    assert "reduction" in (template(half).why_not(problem(half, m=16, n=20), A100) or "")
