"""A pipeline of several launches is read, verified and estimated as one kernel; faults between launches are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiling import shared_pool
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.user_kernels import KernelFileError
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from cost_models.analytic import LAUNCH_SECONDS
from measurements.compiler.pool import Compiled, why_not_launched
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.launch import launch_from_json

A100 = device("a100")
SOURCE = """
__global__ void doubled(float* middle, const float* x, int n) {
  int i = blockIdx.x * block + threadIdx.x;
  FAULT
  if (i < n) middle[i] = 2 * x[i];
}
__global__ void shifted(float* out, const float* middle, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) out[i] = middle[i] + middle[n - 1 - i];
}
"""
STEPS: list[dict[str, Any]] = [
    {"entry": "doubled", "grid": "ceil_div(n, block)", "block": "block", "arguments": ["middle", "x", "n"]},
    {"entry": "shifted", "grid": "ceil_div(n, 64)", "block": 64, "arguments": ["out", "middle", "n"]},
]


def pipeline(name: str, fault: str = "", **more: Any) -> KernelSpec:
    options: dict[str, Any] = {
        "name": name,
        "parameters": {"block": [32, 64]},
        "sizes": {"n": 200},
        "steps": STEPS,
        "arguments": [
            {"name": "out", "kind": "output", "dtype": "f32", "shape": "n"},
            {"name": "middle", "kind": "workspace", "dtype": "f32", "shape": "n"},
            {"name": "x", "kind": "input", "dtype": "f32", "shape": "n"},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        "reference": lambda x: 2 * (x + x[::-1]),
    }
    return KernelSpec(SOURCE.replace("FAULT", fault), **{**options, **more})


def verified(kernel: KernelSpec) -> Verdict:
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, A100).sample(1, 0)
    return verify_one(kernel.template, problem, schedule, A100, depth="full")


@needs_compiler
@needs_nvrtc
def test_a_pipeline_is_verified_in_full() -> None:
    verdict = verified(pipeline("pipe_right"))
    assert verdict.ok, verdict.reason
    assert len(verdict.runs) == 6  # including runs in other orders, with two launches, and with perturbed functions


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("if (i == 7) return;", "uninitialized_global_read"),  # the second launch reads the unwritten element
        ("if (i == n - 1) middle[i + 1] = 0;", "out_of_bounds_global"),
        ("if (i == 3) { middle[i] = 0; return; }", "wrong"),
    ],
)
def test_faults_between_launches_are_found(fault: str, message: str) -> None:
    verdict = verified(pipeline("pipe_wrong", fault))
    assert not verdict.ok
    assert message in verdict.reason


@needs_compiler
@needs_nvrtc
def test_an_output_that_no_launch_writes_is_found() -> None:
    kernel = pipeline(
        "pipe_unwritten", steps=[{**STEPS[0], "arguments": ["middle", "x", "n"]}, {**STEPS[1], "grid": 1}]
    )
    verdict = verified(kernel)
    assert "136 of 200 elements of out were never written" in str(verdict.findings)


@needs_compiler
@needs_nvrtc
def test_launches_share_an_array_that_all_write(tmp_path: Path) -> None:
    """Both launches of the pipeline add to one array, so the second launch adds to the result of the first launch."""
    source = "__global__ void twice(int* x) { x[threadIdx.x] = 3 * x[threadIdx.x] + b; }"
    kernel = KernelSpec(
        source,
        name="pipe_inout",
        parameters={"b": [1, 2]},
        sizes={"n": 64},
        steps=[{"entry": "twice", "grid": 1, "block": "n", "arguments": ["x"]}] * 2,
        arguments=[{"name": "x", "kind": "inout", "dtype": "i32", "shape": "n"}],
        verify=lambda x, x_before: True,
    )
    generated = kernel.template.kernel(
        kernel.problem(), kernel.template.space(kernel.problem(), A100).sample(1, 0)[0], A100
    )
    x = np.arange(64, dtype=np.int32)
    b = int(generated.source.split("#define b ")[1].split()[0])
    np.testing.assert_array_equal(emulate(generated, {"x": x}).outputs["x"], 9 * x + 4 * b)
    np.testing.assert_array_equal(emulate(generated, {"x": x}, calls=2).outputs["x"], 81 * x + 40 * b)
    assert launch_from_json(generated.launch_json()) == launch_from_json(
        generated.with_entries(["twice", "twice"]).launch_json()
    )


@needs_compiler
@needs_nvrtc
def test_one_module_has_all_functions_and_the_time_is_the_sum(tmp_path: Path) -> None:
    kernel = pipeline("pipe_timed")
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, A100).sample(1, 0)
    generated = kernel.template.kernel(problem, schedule, A100)
    pool = shared_pool()
    first, again = pool.compile(generated, "sm_80"), pool.compile(generated, "sm_80")
    assert isinstance(first, Compiled) and isinstance(again, Compiled)
    assert [("doubled" in e, "shifted" in e) for e in first.entries] == [(True, False), (False, True)]
    assert again.steps == first.steps and first.resources.registers == max(s.resources.registers for s in first.steps)
    assert why_not_launched(generated, first, A100) is None
    result = autosched.tune(problem, trials=2, device="a100", backend="estimate", database=tmp_path / "best.db")
    assert result.best is not None and result.best.verification is not None
    assert result.best.seconds is not None and result.best.seconds > 2 * LAUNCH_SECONDS


def test_invalid_steps_are_rejected_in_one_line() -> None:
    for steps, message in (
        ([{**STEPS[0], "arguments": ["middle", "x", "m"]}, STEPS[1]], "step[1].arguments: unknown argument 'm'"),
        ([{**STEPS[0], "entry": "tripled"}, STEPS[1]], "step[1].entry: the source has no function 'tripled'"),
        ([STEPS[0]], "no [[step]] uses the argument out"),
        ([{**STEPS[0], "threads": 3}, STEPS[1]], "step[1].threads: unknown key 'threads'"),
        ([{"entry": "doubled", "grid": 1}, STEPS[1]], "step[1]: block is missing"),
        ([{**STEPS[0], "arguments": [["x"]]}, STEPS[1]], "unknown argument ['x']"),
        (STEPS * 9, "at most 16 steps"),
    ):
        with pytest.raises(KernelFileError) as raised:
            pipeline("pipe_bad", steps=steps)
        assert message in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(KernelFileError, match=r"leave \[launch\] out"):
        pipeline("pipe_bad", block="block", grid=1)
    with pytest.raises(KernelFileError, match="has its own entry"):
        pipeline("pipe_bad", entry="doubled")


def test_each_launch_has_the_limits_of_the_device() -> None:
    kernel = pipeline("pipe_limits", steps=[STEPS[0], {**STEPS[1], "block": "64 * block"}])
    space = kernel.template.space(kernel.problem(), A100)
    assert space.count() == 0
    assert "launch.block_2" in {rule.name for rule in space.constraints}
