"""Element-wise kernels with large grids are emulated on a smaller problem that has the same remainders."""

from __future__ import annotations

from typing import Any

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.user_kernels.problem import KernelProblem
from autosched.user_kernels.reduced import BLOCKS
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
SOURCE = """
__global__ void shifted(float* y, const float* x, const float* bias, int rows, int columns) {
  int c = blockIdx.x * block_x + threadIdx.x, r = blockIdx.y * 4 + threadIdx.y;
  GUARD y[(size_t)r * columns + c] = x[(size_t)r * columns + c] + bias[c];
}
"""
GUARD = "if (c < columns && r < rows)"


def kernel(guard: str = GUARD, **more: Any) -> KernelSpec:
    options: dict[str, Any] = {
        "name": "shifted",
        "entry": "shifted",
        "parameters": {"block_x": [64]},
        "sizes": {"rows": 4097, "columns": 11009},
        "grid": ["ceil_div(columns, block_x)", "ceil_div(rows, 4)"],
        "block": ["block_x", 4],
        "arguments": [
            {"name": "y", "kind": "output", "dtype": "f32", "shape": ["rows", "columns"]},
            {"name": "x", "kind": "input", "dtype": "f32", "shape": ["rows", "columns"]},
            {"name": "bias", "kind": "input", "dtype": "f32", "shape": ["columns"]},
            {"name": "rows", "kind": "scalar", "value": "rows"},
            {"name": "columns", "kind": "scalar", "value": "columns"},
        ],
        "reference": lambda x, bias: x + bias,
    }
    return KernelSpec(SOURCE.replace("GUARD", guard), **{**options, **more})


def emulated(spec: KernelSpec) -> tuple[KernelProblem, KernelProblem]:
    problem = spec.problem()
    return problem, emulated_problem(spec.template, problem, schedule_of(spec))  # type: ignore[return-value]


def schedule_of(spec: KernelSpec) -> Schedule:
    (schedule,) = spec.template.space(spec.problem(), A100).sample(1, 0)
    return schedule


def verified(spec: KernelSpec) -> Verdict:
    return verify_one(spec.template, spec.problem(), schedule_of(spec), A100)


def test_a_large_problem_keeps_its_remainders() -> None:
    problem, small = emulated(kernel())
    assert small.sizes["rows"] % 4 == problem.sizes["rows"] % 4
    assert small.sizes["columns"] % 64 == problem.sizes["columns"] % 64
    assert -(-small.sizes["rows"] // 4) == BLOCKS
    assert small.min_bytes <= 4 * 2**20 < problem.min_bytes
    assert emulated_problem(kernel().template, small, schedule_of(kernel())) == small


def test_an_uneven_block_size_keeps_its_remainder() -> None:
    spec = kernel(parameters={"block_x": [96]}, sizes={"rows": 1, "columns": 2**24 + 5})
    _, small = emulated(spec)
    assert small.sizes["columns"] % 96 == (2**24 + 5) % 96 and small.sizes["columns"] <= BLOCKS * 96


@pytest.mark.parametrize(
    "more",
    [
        {"proxy": {"rows": 5}},
        {"rules": ["rows > 1000", "columns > 1000"]},
        {"grid": [64, 64]},  # a fixed grid, as for a grid-stride loop
    ],
)
def test_a_given_reduced_problem_is_kept(more: dict[str, Any]) -> None:
    problem, small = emulated(kernel(**more))
    if "proxy" in more:
        assert small.sizes["rows"] == 5
    else:
        assert small == problem


def test_a_summed_extent_is_not_reduced() -> None:
    arguments = [
        {"name": "y", "kind": "output", "dtype": "f32", "shape": ["rows"]},
        {"name": "x", "kind": "input", "dtype": "f32", "shape": ["rows", "columns"]},
        {"name": "rows", "kind": "scalar", "value": "rows"},
        {"name": "columns", "kind": "scalar", "value": "columns"},
    ]
    problem, small = emulated(kernel(arguments=arguments))
    assert small == problem


def test_a_size_unknown_to_the_source_is_not_reduced() -> None:
    arguments = [
        {"name": "y", "kind": "output", "dtype": "f32", "shape": ["rows", "columns"]},
        {"name": "x", "kind": "input", "dtype": "f32", "shape": ["rows", "columns"]},
        {"name": "columns", "kind": "scalar", "value": "columns"},
    ]
    problem, small = emulated(kernel(arguments=arguments))
    assert small.sizes["rows"] == problem.sizes["rows"]


@needs_compiler
@needs_nvrtc
def test_a_missing_guard_is_found_on_the_remainder() -> None:
    assert verified(kernel()).ok
    verdict = verified(kernel("if (c < columns)", sizes={"rows": 4097, "columns": 300}))
    assert not verdict.ok and "out_of_bounds_global" in verdict.reason


@needs_compiler
@needs_nvrtc
def test_a_kernel_that_requires_the_full_size_is_not_rejected() -> None:
    """A kernel with a hard-coded size fails on the smaller problem, and is then verified at the true size."""
    spec = kernel("rows = 4097; " + GUARD, sizes={"rows": 4097, "columns": 300})
    verdict = verified(spec)
    assert verdict.ok, verdict.reason
    assert verdict.problem == spec.problem()
