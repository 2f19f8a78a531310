"""A full verification has runs for faults that need many tiles, or states why such a run is absent."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from itertools import islice

import pytest

from autosched.verify import stored
from autosched.verify.coverage import ROLES, Coverage, RoleCoverage
from autosched.verify.large_runs import stress_runs, true_size_run
from autosched.verify.runs import VerifySettings
from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.stress_sizes import stress_sizes
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, Softmax
from search_spaces.operators.transpose import Transpose

H200 = device("h200")
WHOLE = Coverage(
    (
        RoleCoverage("true size", ("true size",)),
        RoleCoverage("many tiles", ("many rows", "many columns")),
        RoleCoverage("far", (), "its arrays are too large"),
    )
)


def test_a_coverage_survives_json_and_lists_its_gaps() -> None:
    assert Coverage.from_json(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE
    assert WHOLE.lacks == ("no far run: its arrays are too large",)
    partial = RoleCoverage("far", ("far rows",), left_out=("reduced is not compared",))
    assert partial.lacks == "far run: reduced is not compared" and RoleCoverage("far", ("far rows",)).lacks == ""


@pytest.mark.parametrize(
    "data", [[], [{"role": "near", "runs": [], "absent": "", "left_out": []}], WHOLE.to_json()[:2]]
)
def test_invalid_coverage_is_rejected(data: list[dict[str, object]]) -> None:
    with pytest.raises(ValueError):
        Coverage.from_json(data)


def test_a_stored_verification_lists_its_gaps() -> None:
    verification = {"status": "ok", "emulator": "e", "runs": [], "depth": "full", "whole": True}
    assert stored.lacks(json.dumps({**verification, "coverage": WHOLE.to_json()})) == WHOLE.lacks
    assert stored.coverage(json.dumps({**verification, "coverage": WHOLE.to_json()})) == WHOLE
    assert stored.lacks(json.dumps(verification)) == (stored.UNKNOWN_COVERAGE,)
    assert stored.lacks(json.dumps({**verification, "coverage": [1]})) == (stored.UNKNOWN_COVERAGE,)
    assert stored.lacks(json.dumps({**verification, "depth": "quick"})) == () == stored.lacks(None)


LARGE = Matmul(4096, 4096, 4096, a="f16")


@pytest.mark.parametrize(
    ("name", "problem", "values"),
    [
        ("matmul", LARGE, {}),
        ("matmul", LARGE, {"stream_k": 1}),
        ("matmul", Matmul(4096, 4096, 512, a="bf16", reduction="row_sum"), {}),
        ("wgmma_matmul", LARGE, {"tiles_per_block": (4, 5, 6, 7, 8), "stream_k": 0}),
        ("wgmma_matmul", Matmul(4096, 4096, 7168, a="e4m3", scale="block"), {}),
        ("wgmma_matmul_transposed", Matmul(32, 8192, 8192, a="f16"), {}),
        ("matvec", Matvec(1, 8192, 8192), {}),
        ("row_reduction", Softmax(8192, 4096, "f16"), {}),
        ("row_reduction", Reduce(1 << 20, 1024, "f16", axis="column", reduction_size=1024), {}),
        ("transpose", Transpose(8192, 8192), {}),
        ("copy", Copy(8192, 8192), {}),
    ],
    ids=str,
)
def test_schedules_have_runs_of_every_role(name: str, problem: Problem, values: dict[str, object]) -> None:
    kernel_template = template(name)
    schedule = next(
        s
        for s in kernel_template.space(problem, H200).sample(2000, 0)
        if all(s[p] in v if isinstance(v, tuple) else s[p] == v for p, v in values.items())
    )
    small = emulated_problem(kernel_template, problem, schedule)
    settings = VerifySettings("full")
    runs = [true_size_run(kernel_template, problem, small, schedule, H200, settings)]
    runs += stress_runs(kernel_template, small, schedule, H200, settings)
    for role in ROLES:
        of_role = [run for run in runs if run.role == role]
        assert any(run.make is not None for run in of_role), [run.absent for run in of_role]
        assert all(run.make is not None or run.absent for run in of_role)


@pytest.mark.parametrize(("name", "gpu"), [("wgmma_matmul", "h200"), ("matmul", "a100"), ("tma_matmul", "rtx5090")])
def test_workers_of_stream_k_run_together(name: str, gpu: str) -> None:
    """Every stream-K schedule has a legal size for which the number of blocks that share tiles is the number of SMs."""
    kernel_template, on = template(name), device(gpu)
    for schedule in [s for s in kernel_template.space(LARGE, on).sample(800, 0) if s.integer("stream_k")][:3]:
        small = emulated_problem(kernel_template, LARGE, schedule)
        (run,) = (
            r
            for r in stress_runs(kernel_template, small, schedule, on, VerifySettings("full"))
            if r.name == "all workers"
        )
        assert run.make is not None, f"{run.absent}: {schedule}"
        (size,) = (s for s in stress_sizes(small, schedule) if s.name == "all workers")
        kernels = []
        for stress_size in (size, *size.smaller):
            with suppress(ValueError):  # the schedule is not valid for that size
                kernels.append(kernel_template.kernel(stress_size.problem, schedule, on))
        large = kernel_template.kernel(LARGE, schedule, on)
        assert kernels[0].grid == large.grid or math.prod(kernels[0].grid) >= 128, schedule


@pytest.mark.parametrize(("name", "gpu"), [("wgmma_matmul", "h200"), ("matmul", "a100")])
def test_all_blocks_of_an_sm_participate_in_stream_k(name: str, gpu: str) -> None:
    """In the run "all workers", all blocks of all SMs share tiles, even if several blocks run on each SM."""
    kernel_template, on = template(name), device(gpu)
    streamed = (s for s in kernel_template.space(LARGE, on).sample(4000, 1) if s.integer("stream_k"))
    for schedule in islice((s for s in streamed if s.integer("min_blocks") > 1), 4):
        small = emulated_problem(kernel_template, LARGE, schedule)
        (size,) = (s for s in stress_sizes(small, schedule) if s.name == "all workers")
        kernels = []
        for stress_size in (size, *size.smaller):
            with suppress(ValueError):  # the schedule is not valid for that size
                kernels.append(kernel_template.kernel(stress_size.problem, schedule, on))
        assert kernels[0].grid == kernel_template.kernel(LARGE, schedule, on).grid, schedule


def test_omitted_runs_of_wgmma_stream_k_have_a_reason() -> None:
    """With stream-K, wgmma kernels share so few tiles that no product of two sizes exceeds 32 bits."""
    wgmma = template("wgmma_matmul")
    schedule = next(s for s in wgmma.space(LARGE, H200).sample(500, 1) if s.integer("stream_k"))
    small = emulated_problem(wgmma, LARGE, schedule)
    runs = list(stress_runs(wgmma, small, schedule, H200, VerifySettings("full")))
    assert any(run.make is not None for run in runs if run.role == "many tiles")
    far = [run for run in runs if run.role == "far"]
    assert far and all(run.make is None and "stream_k" in run.absent for run in far), [run.absent for run in far]
