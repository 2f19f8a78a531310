"""Example programs with argmax, scans, routing and random numbers agree with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from program_outputs import outputs

from autosched.programs.loading import load_program, problem

DEVICES = ("t4", "a100", "h100", "b200")


@pytest.mark.parametrize("where", DEVICES)
def test_cumulative_sum(where: str) -> None:
    program = load_program("examples/programs/cumulative_sum.py")
    x = np.random.default_rng(1).integers(-8, 9, (5, 1100)).astype(np.float32)
    assert np.array_equal(outputs(program, where, {"x": x}, 1, m=5, n=1100)["out"], np.cumsum(x, 1))


@pytest.mark.parametrize("where", DEVICES)
def test_argmax(where: str) -> None:
    program = load_program("examples/programs/argmax.py")
    x = np.random.default_rng(2).integers(-60, 60, (6, 5000)).astype(np.float16)
    x[1], x[2, [700, 4000]], x[3, 4999] = -np.inf, np.nan, np.inf
    actual = outputs(program, where, {"x": x}, 2, m=6, n=5000)
    assert np.array_equal(actual["index"], np.argmax(x, 1))
    assert np.array_equal(actual["value"], np.max(x, 1).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("where", DEVICES)
def test_moe_routing(where: str) -> None:
    program = load_program("examples/programs/moe_routing.py")
    logits = np.random.default_rng(3).normal(size=(70, 24)).astype(np.float32)
    inputs = {"logits": logits, "tokens": np.zeros(24, np.int32)}
    actual = outputs(program, where, inputs, 3, t=70, e=24, k=2)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :2]
    assert np.array_equal(actual["expert"], chosen)
    share = np.exp(np.take_along_axis(logits, chosen, 1).astype(np.float64))
    assert np.allclose(actual["weight"], share / share.sum(1, keepdims=True), rtol=1e-5)
    assert np.array_equal(actual["tokens"], np.bincount(chosen.reshape(-1), minlength=24))


@pytest.mark.parametrize("where", DEVICES)
def test_dropout(where: str) -> None:
    program = load_program("examples/programs/dropout.py")
    inputs = problem(program, m=6, n=900, one=1).random_inputs(4)
    x = np.full((6, 900), 0.75, np.float16)
    inputs |= {"x": x, "seed": np.array([-7], np.int32), "drop": np.array([0.25], np.float32)}
    actual = outputs(program, where, inputs, 4, m=6, n=900, one=1)["out"]
    assert set(np.unique(actual)) == {0.0, 1.0}
    assert abs((actual == 0).mean() - 0.25) < 0.03
    again = outputs(program, where, inputs, 5, m=6, n=900, one=1)["out"]
    other = outputs(program, where, {**inputs, "seed": np.array([8], np.int32)}, 5, m=6, n=900, one=1)["out"]
    assert np.array_equal(actual, again) and not np.array_equal(actual, other)
