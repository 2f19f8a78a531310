"""Two hundred sampled schedules of each operator are right in the emulator."""

from __future__ import annotations

import pytest
from tile_operator_checks import kernel_of, outcome, sampled

from benchmarks.emulator.tile_operator_problems import PROBLEMS
from search_spaces.tile_operators.tile_problem import TileOperator

SCHEDULES = 200


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("problem", [small for small, *_ in PROBLEMS.values()], ids=lambda p: p.operator)
def test_sampled_schedules_are_right(problem: TileOperator, gpu: str) -> None:
    schedules = sampled(problem, gpu, SCHEDULES // 2, seed=7)
    assert [s for s in schedules if outcome(problem, kernel_of(problem, gpu, s)) != "ok"] == []
