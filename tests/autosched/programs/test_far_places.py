"""Positions beyond 2^31 elements, along a line of memory and across lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import representative

from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import verify_one
from search_spaces.hardware.devices import device
from search_spaces.programs.lowering.elements import Code
from search_spaces.programs.template import template

A100 = device("a100")
PROGRAM = str(Path(__file__).parents[3] / "examples" / "programs" / "gemm_relu.py")


def test_distances_that_an_int_does_not_hold() -> None:
    code, far = Code(), 1 << 29
    assert code.at(tuple(range(0, 5 * far, far)), "r") == f"r * {far}ll"
    assert code.at((0, 1, far, far + 1), "r") == "table_1[r]"
    assert code.at((0, 1, 8 * far, 8 * far + 1), "r") == "table_2[r]"
    assert [line.split(" table")[0] for line in code.tables] == [
        "__device__ constexpr int",
        "__device__ constexpr long long",
    ]


@pytest.mark.parametrize("store", representative(["direct", "turned"], "turned"))
def test_lines_far_apart(store: str) -> None:
    """A full verification accesses distant rows and distant columns."""
    program = load_program(PROGRAM)
    p, kernel_template = problem(program, m=80, n=72, k=32), template(program)
    schedule = next(
        s
        for s in kernel_template.space(p, A100).sample(60, 0)
        if s.values["store_1"] == store and s.values["split_k"] == 1
    )
    verdict = verify_one(kernel_template, p, schedule, A100, depth="full")
    assert verdict.status == "ok", verdict.reason
    assert {"far m", "far n"} <= {run["name"] for run in verdict.stored()["runs"]}
