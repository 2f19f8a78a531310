"""All files of published kernels are read, and their references run. Every test run verifies some of the kernels."""

from __future__ import annotations

import pytest
from needs import needs_nvrtc

from autosched import KernelSpec
from autosched.verify.schedules import verify_one
from benchmarks.users_kernels.published.__main__ import FROM, files
from search_spaces.hardware.devices import device

A100 = device("a100")
EXPRESSED = [path for path in files() if path.parent.name != "refused"]
# in-place update; input in constant memory, and a function that checks outputs; atomics
VERIFIED_BY_DAY = ("stencil", "pnpoly", "sort")


def test_thirty_published_kernels_exist() -> None:
    assert len(files()) >= 30 and {path.parent.name for path in files()} == set(FROM)
    assert len(EXPRESSED) >= 28
    assert len({KernelSpec.from_file(path).file.name for path in files()}) == len(files())


@pytest.mark.parametrize("path", EXPRESSED, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_each_reference_or_output_check_runs(path) -> None:  # type: ignore[no-untyped-def]
    problem = KernelSpec.from_file(path).problem()
    inputs = problem.random_inputs(0)
    written = {o.name for o in problem.operands() if o.role in ("output", "inout")}
    if problem.checks_outputs:
        assert written
        return
    assert problem.reference(inputs).keys() == written


@needs_nvrtc
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem in VERIFIED_BY_DAY else (pytest.mark.nightly,)) for path in EXPRESSED],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_two_configurations_are_verified(path) -> None:  # type: ignore[no-untyped-def]
    kernel = KernelSpec.from_file(path)
    problem = kernel.problem()
    for schedule in kernel.template.space(problem, A100).sample(2, 7):
        verdict = verify_one(kernel.template, problem, schedule, A100)
        assert verdict.ok, f"{schedule.values}: {verdict.status}: {verdict.reason}"


@needs_nvrtc
def test_none_of_thirty_is_rejected() -> None:
    assert len(files()) == 30
    assert {path.parent.name for path in files()} == {"bat", "hub", "kernel_tuner"}
