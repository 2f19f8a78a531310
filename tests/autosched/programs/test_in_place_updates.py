"""Programs that both load and store InOut arrays.

Emulated results are correct even if blocks run in orders that would expose a race.
"""

from __future__ import annotations

import numpy as np
import pytest
from program_outputs import outputs

from autosched.programs.loading import problem
from search_spaces.programs.builder import Builder, InOut, Input, Output, program
from search_spaces.programs.language.ir import Array, ProgramError


@program(w=InOut("n", "f32"), m=InOut("n", "f32"), g=Input("n", "f16"))
def momentum(p: Builder, w: Array, m: Array, g: Array) -> None:
    (i,) = p.blocks(w.shape, (256,))
    weight, moment, gradient = (p.window(a, (0, i), (1, 256)) for a in (w, m, g))
    new = p.load(moment) * 0.5 + p.load(gradient).cast("f32")
    p.store(new, moment)
    p.store(p.load(weight) - new * 0.25, weight)


@pytest.mark.parametrize("where", ["t4", "a100", "h100", "b200"])
def test_an_optimiser_step(where: str) -> None:
    inputs = problem(momentum, n=700).random_inputs(1)
    actual = outputs(momentum, where, inputs, 1, n=700)
    moment = inputs["m"] * np.float32(0.5) + inputs["g"].astype(np.float32)
    assert np.allclose(actual["m"], moment, rtol=1e-6)
    assert np.allclose(actual["w"], inputs["w"] - moment * np.float32(0.25), rtol=1e-5, atol=1e-6)


@program(x=InOut("m n", "f32"))
def softmax_in_place(p: Builder, x: Array) -> None:
    """Store a tile, load it again and store the result. The tile's distribution over threads changes in between."""
    (i,) = p.blocks((x.shape[0],), (8,))
    window = p.window(x, (i, 0), (8, 64))
    tile = p.load(window, padding=-float("inf"))
    e = p.exp(tile - p.reduction("maximumf", tile, 1))
    p.store(e, window)
    again = p.load(window)
    p.store(p.transpose(p.transpose(again) / p.transpose(p.reduction("add", again, 1))), window)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_stored_and_loaded_again(seed: int) -> None:
    inputs = problem(softmax_in_place, m=20, n=50).random_inputs(seed)
    actual = outputs(softmax_in_place, "a100", inputs, seed, m=20, n=50)["x"]
    e = np.exp(inputs["x"] - inputs["x"].max(1, keepdims=True))
    assert np.allclose(actual, e / e.sum(1, keepdims=True), rtol=1e-5)


@program(x=InOut("m n", "i32"))
def running_rows(p: Builder, x: Array) -> None:
    """Each iteration loads the transpose of the tile that the previous iteration stored.

    So each element is read by another thread than the thread that stored it.
    """
    (j,) = p.blocks((x.shape[1],), (32,))
    for i in p.steps(x.shape[0] - 32, 32):
        above = p.load(p.window(x, (i, j), (32, 32)))
        below = p.window(x, (i + 32, j), (32, 32))
        p.store(p.load(below) + p.transpose(above), below)


@pytest.mark.parametrize("seed", range(3))
def test_iterations_load_values_stored_by_earlier_ones(seed: int) -> None:
    inputs = problem(running_rows, m=128, n=64).random_inputs(seed)
    actual = outputs(running_rows, "a100", inputs, seed, m=128, n=64)["x"]
    expected = inputs["x"].copy()
    for i in range(0, 96, 32):
        for j in (0, 32):
            expected[i + 32 : i + 64, j : j + 32] += expected[i : i + 32, j : j + 32].T
    assert np.array_equal(actual, expected)


def test_loads_of_values_stored_by_another_block_are_rejected() -> None:
    def body(p: Builder, x: Array) -> None:
        (i,) = p.blocks(x.shape, (64,))
        p.store(p.load(p.window(x, (0, i + 64), (1, 64))), p.window(x, (0, i), (1, 64)))

    p = problem(program(x=InOut("n", "f32"))(body), n=256)
    with pytest.raises(ProgramError, match=r"test_in_place_updates\.py:\d+: load: x depends on the order"):
        p.expected(p.random_inputs(1))


def test_an_output_is_not_loaded() -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks(x.shape, (64,))
        p.store(p.load(p.window(out, (0, i), (1, 64))), p.window(out, (0, i), (1, 64)))

    with pytest.raises(ProgramError, match="InOut"):
        problem(program(x=Input("n", "f32"), out=Output("n", "f32"))(body), n=256)
