"""Random tile programs and schedules: the emulator's numbers within the interpreter's bounds, nothing to report."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_programs import random_program, random_tiles
from random_schedules import random_schedule

from autosched.programs.loading import problem
from measurements.emulator import ASCENDING, Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

A100 = device("a100")


def check_tiles(seed: int, orders: int = 1) -> None:
    rng = random.Random(-seed)
    made = random_tiles(seed)
    p = problem(made, m=rng.randint(1, 130), n=rng.choice((8, 24, 96, 130, 77)))
    if "outside of the array" in (template(made).why_not(p, A100) or ""):
        p = problem(made, m=192, n=768)  # multiples of all shapes: nothing lies outside
    prove(p, seed, orders)


def check(seed: int, orders: int = 1) -> None:
    rng = random.Random(-seed)
    prove(problem(random_program(seed), **{name: rng.randint(1, 130) for name in "mnk"}), seed, orders)


def prove(p: ProgramProblem, seed: int, orders: int) -> None:
    """A random schedule gives the interpreter's numbers, within its bounds."""
    own = template(p.program)
    reason = own.why_not(p, A100)
    assert reason is None, reason
    inputs = p.random_inputs(seed)
    wanted, bounds = p.expected(inputs)
    schedule = random_schedule(own.space(p, A100), seed)
    kernel, told = own.kernel(p, schedule, A100), f"seed {seed}, {p.sizes}, {schedule}"
    (out,) = (o for o in p.operands() if o.role == "output")
    for order in (ASCENDING, Order("random", seed=seed))[:orders]:
        run = emulate(kernel, inputs, time_limit=60.0, order=order)
        assert run.status == "ok", (run.reason, told)
        error = np.abs(out.dtype.load(run.outputs["out"]) - wanted["out"])
        assert np.all(error <= bounds["out"]), told


# 200 programs here, 5,000 nightly, each of those once more in a random order of blocks, warps and lanes.


@pytest.mark.parametrize("seed", range(80))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(120))
def test_random_tiles(seed: int) -> None:
    check_tiles(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_many_random_programs(seed: int) -> None:
    check(seed, orders=2)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 4000))
def test_many_random_tiles(seed: int) -> None:
    check_tiles(seed, orders=2)
