"""Random tile programs and schedules: the emulator's numbers within the interpreter's bounds, nothing to report."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_programs import random_program, random_tiles

from autosched.programs.loading import problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

A100 = device("a100")


def check_tiles(seed: int) -> None:
    rng = random.Random(-seed)
    made = random_tiles(seed)
    p = problem(made, m=rng.randint(1, 130), n=rng.choice((8, 24, 96, 130, 77)))
    if "outside of the array" in (template(made).why_not(p, A100) or ""):
        p = problem(made, m=192, n=768)  # multiples of all shapes: nothing lies outside
    prove(p, seed)


def check(seed: int) -> None:
    rng = random.Random(-seed)
    prove(problem(random_program(seed), **{name: rng.randint(1, 130) for name in "mnk"}), seed)


def prove(p: ProgramProblem, seed: int) -> None:
    """A random schedule gives the interpreter's numbers, within its bounds."""
    own = template(p.program)
    reason = own.why_not(p, A100)
    assert reason is None, reason
    inputs = p.random_inputs(seed)
    wanted, bounds = p.expected(inputs)
    (schedule,) = own.space(p, A100).valid.sample(1, seed)
    run = emulate(own.kernel(p, schedule, A100), inputs, time_limit=60.0)
    told = f"seed {seed}, {p.sizes}, {schedule}"
    assert run.status == "ok", (run.reason, told)
    (out,) = (o for o in p.operands() if o.role == "output")
    error = np.abs(out.dtype.load(run.outputs["out"]) - wanted["out"])
    assert np.all(error <= bounds["out"]), told


@pytest.mark.parametrize("seed", [0, 1, *range(3, 8)])  # 2 takes as long as all of them
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_tiles(seed: int) -> None:
    check_tiles(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [2, *range(100, 300)])
def test_many_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 600))
def test_many_random_tiles(seed: int) -> None:
    check_tiles(seed)
