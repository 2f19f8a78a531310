"""A tile program can be an additional template of matmul, with the same union space, verification and commands."""

from __future__ import annotations

import sys
from pathlib import Path

import forked_python
import numpy as np
import pytest

from autosched.programs.loading import load, load_program
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.program_template import ProgramTemplate
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import TemplateSet

A100 = device("a100")
PROGRAM = str(Path(__file__).parents[3] / "examples" / "programs" / "matmul.py")


def program_template() -> ProgramTemplate:
    loaded = load(PROGRAM)
    assert isinstance(loaded, ProgramTemplate)
    return loaded


@pytest.mark.parametrize(
    "problem",
    [
        Matmul(m=70, n=72, k=88, a="f16", epilogue="bias+silu", batch=2),
        Matmul(m=70, n=70, k=40, a="bf16", order_a="col", order_b="col", out="f32", epilogue="relu"),
    ],
    ids=str,
)
def test_a_program_is_verified_by_the_operators_reference(problem: Matmul) -> None:
    both = TemplateSet([MATMUL, program_template().template()])
    space = both.space(problem, A100)
    assert space.count() == sum(t.space(problem, A100).count() for t in both)
    inputs = problem.random_inputs(1)
    expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    (out,) = (o for o in problem.operands() if o.role == "output")
    schedules = {s.template: s for s in space.sample(24, 0)}
    assert set(schedules) == {"matmul", "matmul_program"}
    run = emulate(both.kernel(problem, schedules["matmul_program"], A100), inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    assert np.all(np.abs(out.dtype.load(run.outputs["out"]) - expected) <= allowed)


def test_the_proxy_is_a_problem_of_the_operator() -> None:
    template, problem = program_template().template(), Matmul(m=4099, n=4100, k=4104, a="f16")
    (schedule,) = template.space(problem, A100).sample(1, 0)
    assert template.proxy is not None
    small = template.proxy(problem, schedule)
    assert isinstance(small, Matmul) and small.m < 1024
    assert small.m % schedule.integer("bm") == 4099 % schedule.integer("bm")


def test_invalid_programs_of_operators_are_rejected() -> None:
    template = program_template().template()
    assert "not i8" in str(template.why_not(Matmul(m=8, n=8, k=8, a="i8"), A100))
    assert "bias, relu and silu" in str(template.why_not(Matmul(m=8, n=8, k=8, epilogue="gelu"), A100))
    with pytest.raises(ProgramError, match="a kernel template of matmul"):
        load_program(PROGRAM)


def test_the_command_line_searches_both() -> None:
    """Search both templates in a separate process, because a program stays registered until its process ends."""
    sizes = [part for name in "mnk" for part in ("--size", f"{name}=64")]
    stdout = forked_python.run(
        [sys.executable, "-m", "autosched", "space", "--program", PROGRAM, *sizes, "--device", "a100"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "template matmul:" in stdout and "template matmul_program: matmul as a tile program" in stdout
