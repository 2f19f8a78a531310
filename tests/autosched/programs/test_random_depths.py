"""Random programs with products of any depth: the emulator's results are within the interpreter's bounds."""

from __future__ import annotations

import random

import pytest
from random_depths import FACTORS, random_depths
from random_schedules import random_schedule

from autosched.programs.loading import problem
from measurements.emulator import Order, emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import F32
from search_spaces.programs.template import template
from search_spaces.spaces.space import EmptySpace

DEVICES = ("a100", "h100", "t4", "b200")
FEW, MANY = 5, 40  # number of lowered schedules per program, by default and nightly


def run(seed: int, where: str, typed: str | None = None, lowered: int = FEW) -> None:
    """Lower some schedules of a program, and compare the results of the first schedule with the reference."""
    rng, program = random.Random(-seed), random_depths(seed, typed)
    k = rng.choice((rng.randint(1, 200), 80, 160))
    p, gpu, kernel_template = (
        problem(program, m=rng.randint(1, 70), n=rng.randint(1, 70), k=k, n2=40, n3=40),
        device(where),
        template(program),
    )
    reason = kernel_template.why_not(p, gpu)
    if where == "t4" and reason is not None:
        assert "sm_80" in reason
        return
    assert reason is None, reason
    space = kernel_template.space(p, gpu)
    try:
        schedules = [random_schedule(space, seed + number) for number in range(lowered)]
    except EmptySpace as error:  # with FMA, the complete operand must fit in registers
        assert program.arguments[0][1].dtype == F32 and "registers" in str(error)
        return
    kernels = [kernel_template.kernel(p, schedule, gpu) for schedule in schedules]
    inputs = p.random_inputs(seed)
    emulation = emulate(kernels[0], inputs, time_limit=60.0, order=Order("random", seed=seed))
    case = f"seed {seed}, {where}, {p.sizes}, {schedules[0]}"
    assert emulation.status == "ok", (emulation.reason, case)
    assert not emulation.notes, (emulation.notes, case)
    result = check(p, inputs, emulation.outputs)
    assert result.ok, (result.reason, case)


@pytest.mark.parametrize("seed", range(24))
def test_random_depths(seed: int) -> None:
    run(seed, DEVICES[seed % len(DEVICES)])


@pytest.mark.nightly
@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("typed", FACTORS)
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_depths(seed: int, typed: str, where: str) -> None:
    run(seed, where, typed, MANY)
