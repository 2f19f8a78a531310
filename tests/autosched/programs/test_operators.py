"""Tile programs of language models' operators give numpy's results, in sampled schedules emulated for four GPUs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from cases import spread
from operator_programs import IGNORED, OPERATORS, attended
from program_outputs import outputs

from autosched.programs.loading import load_program, problem
from search_spaces.arrays import Array
from search_spaces.programs.problem import ProgramProblem

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
GPUS = ("a100", "h100", "t4", "b200")


def inputs(name: str, p: ProgramProblem, seed: int) -> dict[str, Array]:
    arrays = p.random_inputs(seed)
    if name == "smoothed loss":
        arrays["label"][[0, 3]] = IGNORED
    return arrays


@pytest.mark.parametrize("name", OPERATORS)
def test_the_interpreter_matches_numpy(name: str) -> None:
    program, sizes, reference = OPERATORS[name]
    p = problem(program, **sizes)
    arrays = inputs(name, p, 1)
    types = {o.name: o.dtype for o in p.operands()}
    expected, bounds = (next(iter(of.values())) for of in p.expected(arrays))
    numbers = {array: types[array].load(np.asarray(values)) for array, values in arrays.items()}
    assert np.all(np.abs(expected - reference(numbers)) <= bounds + 1e-12)


@pytest.mark.parametrize(("name", "gpu"), spread(itertools.product(OPERATORS, GPUS), 20))
def test_sampled_schedules(name: str, gpu: str, nightly: bool) -> None:
    program, sizes, _ = OPERATORS[name]
    for seed in range(3 if nightly else 1):
        outputs(program, gpu, inputs(name, problem(program, **sizes), seed), seed, **sizes)


@pytest.mark.parametrize("gpu", spread(GPUS, 1))
def test_blocks_of_keys_before_a_sliding_window_are_skipped(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, sizes = load_program(str(EXAMPLES / "sliding_window.py")), {"h": 2, "s": 200, "d": 16}
    monkeypatch.setitem(program.function.__globals__, "WINDOW", 24)
    p = problem(program, **sizes)
    inputs = p.random_inputs(1)
    (expected,), (bounds,) = (tuple(of.values()) for of in p.expected(inputs))
    numbers = {name: np.asarray(values).astype(np.float64) for name, values in inputs.items()}
    masked = attended(numbers, lambda z, far, head: np.where(-far < 24, z, -np.inf))
    assert np.all(np.abs(expected - masked) <= bounds + 1e-12)
    outputs(program, gpu, inputs, 1, **sizes)
