"""benchmarks/search/beside_matmul.py finds a legal schedule that is not slower than the initial ones."""

from __future__ import annotations

import pytest

from autosched.programs.loading import load
from benchmarks.search.beside_matmul import PROGRAM, best
from cost_models.analytic import predict
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.program_template import ProgramTemplate

A100 = device("a100")


@pytest.mark.nightly
def test_the_best_schedule_of_the_program() -> None:
    program, problem = load(str(PROGRAM)), Matmul(m=256, n=256, k=256, a="f16")
    assert isinstance(program, ProgramTemplate)
    template = program.template()
    space = template.space(problem, A100)
    schedule, seconds = best(template, problem, A100, samples=10)
    assert schedule in space and template.counts is not None
    begun = [predict(template.counts(problem, space.config(s), A100), A100) for s in space.sample(10, 0)]
    assert seconds <= min(begun)
