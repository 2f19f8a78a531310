"""Loops may carry tiles whose sizes are not powers of two. Lane counts may be odd, and reductions may be partial."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.layout_distributions import blocked
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.schedules.sizes import lane_counts
from search_spaces.programs.template import template

SHAPES = ((7, 33), (33, 15), (33, 33))


def sums(rows: int, columns: int) -> Program:
    """Return a program that carries a tile and adds reductions along both axes to it."""

    @program(x=Input("m n", "f32"), out=Output("m n", "f32"))
    def odd(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (rows,))
        state = p.state(p.zeros((rows, columns)))
        for j in p.steps(x.shape[1], columns):
            v = p.load(p.window(x, (i, j), (rows, columns)))
            inside = p.where(p.columns(j, columns) < x.shape[1], v, -float("inf"))
            below = p.reduction("add", v, dim=0)
            state.set(state * 0.5 + v + below + p.reduction("maximumf", inside, dim=1))
        for j in p.steps(x.shape[1], columns):
            p.store(state.read(), p.window(out, (i, j), (rows, columns)))

    return odd


@pytest.mark.parametrize("name", ["a100", "h100"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES[:3])
def test_carried_tiles(rows: int, columns: int, name: str) -> None:
    tile_program, where = sums(rows, columns), device(name)
    p, own = problem(tile_program, m=2 * rows + 1, n=2 * columns + 1), template(tile_program)
    schedules = own.space(p, where).sample(4, 1)
    kernels = [own.kernel(p, schedule, where) for schedule in schedules]
    assert outcome(p, kernels[0]) == "ok"


def test_every_element_has_a_lane() -> None:
    for lanes, lines in itertools.product((3, 5, 6, 7, 11, 15), (1, 3, 4, 9)):
        of = blocked((lines, 2 * lanes), 2, 1, lanes, 1, 1)
        assert set(np.unique(of.elements(2))) == set(range(lines * 2 * lanes)), (lanes, lines)


def test_lanes_divide_lines() -> None:
    choice = choices_of(problem(sums(7, 33), m=15, n=67))
    assert {3, 11, 16} <= set(lane_counts(choice, 0))
    even = choices_of(problem(sums(16, 24), m=32, n=48))
    assert set(lane_counts(even, 0)) == {1, 2, 4, 8, 16, 32}
