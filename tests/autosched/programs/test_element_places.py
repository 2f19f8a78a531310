"""Windows whose elements have individual positions, given by tiles of row indices and column indices."""

from __future__ import annotations

import numpy as np
import pytest
from program_outputs import outputs

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, InOut, Input, Output, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template


@program(x=Input("m n", "f32"), ids=Input("m q", "i32"), out=Output("m q", "f32"))
def take_along_rows(p: Builder, x: Array, ids: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (16, 32))
    at = p.load(p.window(ids, (i, j), (16, 32)), padding=-1)
    p.store(p.load(p.window(x, (p.rows(i, 16), at), (16, 32)), padding=-9.0), p.window(out, (i, j), (16, 32)))


@pytest.mark.parametrize("where", ["t4", "a100", "h100", "b200"])
def test_take_along_axis(where: str) -> None:
    inputs = problem(take_along_rows, m=37, n=20, q=50).random_inputs(1)
    ids = inputs["ids"]
    inside = ids < 20
    assert ids.max() >= 20 and inside.mean() > 0.8  # most positions are inside of x, and some are outside
    actual = outputs(take_along_rows, where, inputs, 1, m=37, n=20, q=50)["out"]
    expected = np.take_along_axis(inputs["x"], np.where(inside, ids, 0), 1)
    assert np.array_equal(actual, np.where(inside, expected, np.float32(-9.0)))


@program(x=Input("b m n", "i32"), r=Input("q w", "i32"), c=Input("q w", "i32"), out=InOut("b m n", "i32"))
def add_elements(p: Builder, x: Array, r: Array, c: Array, out: Array) -> None:
    i, j = p.blocks(r.shape, (16, 32))
    row, column = (p.load(p.window(a, (i, j), (16, 32)), padding=-1) for a in (r, c))
    tile = p.load(p.window(x[1], (column, row), (16, 32), turned=True))
    p.atomic_rmw("addi", tile, p.window(out[1], (row, column), (16, 32)))


def test_atomics_of_elements() -> None:
    sizes = {"b": 2, "m": 17, "n": 20, "q": 20, "w": 40}
    inputs = problem(add_elements, **sizes).random_inputs(2)
    x, row, column, before = (inputs[name] for name in ("x", "r", "c", "out"))
    actual = outputs(add_elements, "a100", inputs, 2, **sizes)["out"]
    expected, inside = before.copy(), (row < 17) & (column < 20)
    np.add.at(expected[1], (row[inside], column[inside]), x[1][row[inside], column[inside]])
    assert np.array_equal(actual, expected)


@program(x=Input("m n", "f16"), position=Input("m n", "i32"), out=InOut("m n", "f16"))
def shuffle_elements(p: Builder, x: Array, position: Array, out: Array) -> None:
    i, j = p.blocks(x.shape, (16, 32))
    n, at = x.shape[1], p.load(p.window(position, (i, j), (16, 32)), padding=-1)
    p.store(p.load(p.window(x, (i, j), (16, 32))), p.window(out, (at // n, at % n), (16, 32)))


def test_stores_of_elements() -> None:
    inputs = problem(shuffle_elements, m=17, n=20).random_inputs(3)
    actual = outputs(shuffle_elements, "h100", inputs, 3, m=17, n=20)["out"]
    expected, at = inputs["out"].copy().reshape(-1), inputs["position"].reshape(-1)
    expected[at[at < 340]] = inputs["x"].reshape(-1)[at < 340]
    assert np.array_equal(actual.reshape(-1), expected)


def test_index_tiles_of_the_wrong_shape_are_rejected() -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        p.blocks((8,), (8,))
        p.store(p.load(p.window(x, (p.rows(0, 4), p.columns(0, 16)), (8, 16))), p.window(out, (0, 0), (8, 16)))

    tile_program = program(x=Input("m n", "f32"), out=Output("m n", "f32"))(body)
    with pytest.raises(ValueError, match=r"test_element_places\.py:\d+: window: indices of rows .*8x16 i32"):
        problem(tile_program, m=8, n=16)


def test_stores_reject_positions_from_padding() -> None:
    def body(p: Builder, x: Array, position: Array, out: Array) -> None:
        i, j = p.blocks(x.shape, (16, 32))
        at = p.load(p.window(position, (i, j), (16, 32)))
        p.store(p.load(p.window(x, (i, j), (16, 32))), p.window(out, (at, p.columns(j, 32)), (16, 32)))

    tile_program = program(x=Input("m n", "f32"), position=Input("m n", "i32"), out=InOut("m n", "f32"))(body)
    assert "padding=-1" in (template(tile_program).why_not(problem(tile_program, m=17, n=20), device("a100")) or "")
