"""For sampled configurations, the kernels under ``examples/`` compile and are correct in the emulator."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import representative, spread
from compiling import compile_many, shared_pool

from autosched.cli import main
from autosched.user_kernels.problem import KernelProblem
from autosched.user_kernels.user_kernel import KernelSpec as UserKernel
from measurements.compiler.pool import Compiled
from measurements.emulator import emulate
from search_spaces.arrays import Array
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.spaces.schedule import Schedule

EXAMPLES = Path(__file__).parents[2] / "examples"
H200 = device("h200")

# By kernel: sizes that no tile divides, and sizes smaller than one block.
SMALL_SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "vector_add": ({"n": 10_007}, {"n": 3}),
    "matmul": ({"m": 67, "n": 101, "k": 37}, {"m": 1, "n": 3, "k": 5}),
    "convolution": (
        {"width": 83, "height": 45, "filter_width": 5, "filter_height": 3},
        {"width": 40, "height": 3, "filter_width": 4, "filter_height": 7},
    ),
    "reduction": ({"n": 50_021}, {"n": 3}),
}
NAMES = tuple(SMALL_SIZES)


@cache
def example(name: str) -> UserKernel:
    return UserKernel.from_file(EXAMPLES / name / f"{name}.toml")


def sampled(problem: KernelProblem, count: int) -> list[Schedule]:
    """Return valid schedules. The first schedules contain every value of each parameter that has at most six values."""
    space = UserKernel.of(problem.file).template.space(problem, H200)
    drawn = space.sample(40 * count, 0)
    short = {p.name: p.values for p in problem.file.parameters if len(p.values) <= 6}
    first: dict[Schedule, None] = {}
    for name, values in short.items():
        for value in values:
            with_value = (s for s in drawn if s[name] == value)
            if not any(s[name] == value for s in first):
                first.update(dict.fromkeys([s for s in with_value][:1]))
    return list(dict.fromkeys([*first, *drawn]))[:count]


def kernel_of(problem: KernelProblem, schedule: Schedule) -> GeneratedKernel:
    return UserKernel.of(problem.file).template.kernel(problem, schedule, H200)


def worst(problem: KernelProblem, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
    """Return the largest error of the outputs, divided by the kernel file's tolerance. NaN counts as infinity."""
    tolerance, shares = problem.tolerance(inputs), []
    for name, expected in problem.reference(inputs).items():
        shares.append(np.max(np.abs(outputs[name].astype(np.float64) - expected) / tolerance[name]))
    return float(np.nan_to_num(max(shares), nan=np.inf))


@pytest.mark.parametrize(
    ("name", "which", "count"), spread([(name, *s) for name in NAMES for s in ((0, 6), (1, 4))], 4)
)
def test_numbers_are_right(name: str, which: int, count: int, nightly: bool) -> None:
    problem = example(name).problem(**SMALL_SIZES[name][which])
    schedules, inputs = sampled(problem, 40 if nightly else count), problem.random_inputs(0)
    with ThreadPoolExecutor(2) as pool:
        emulations = list(pool.map(lambda s: emulate(kernel_of(problem, s), inputs), schedules))
    for schedule, emulation in zip(schedules, emulations, strict=True):
        assert emulation.ok, f"{schedule}: {emulation.reason} {emulation.log}"
        assert worst(problem, inputs, emulation.outputs) <= 1, schedule


FAULTS = [
    ("vector_add", "if (i < n) store", "if (i + 1 < n) store"),
    ("matmul", "    __syncthreads();\n#endif\n\n#pragma", "#endif\n\n#pragma"),
    ("convolution", "  __syncthreads();\n", ""),
    ("reduction", "d > 0;", "d > 1;"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), FAULTS)
def test_a_broken_kernel_is_detected(name: str, right: str, wrong: str) -> None:
    problem = example(name).problem(**SMALL_SIZES[name][0])
    parameters = {"vector_width": 4, "buffers": 1}
    known = {p.name for p in problem.file.parameters} & parameters.keys()
    schedule = next(s for s in sampled(problem, 24) if all(s[n] == parameters[n] for n in known))
    kernel, inputs = kernel_of(problem, schedule), problem.random_inputs(0)
    assert kernel.source.count(right) == 1
    broken = dataclasses.replace(kernel, source=kernel.source.replace(right, wrong))
    assert worst(problem, inputs, emulate(kernel, inputs).outputs) <= 1
    seen = emulate(broken, inputs)
    assert seen.findings or worst(problem, inputs, seen.outputs) > 1


def test_every_space_is_worth_searching() -> None:
    for name in NAMES:
        for problem in example(name).problems:
            assert example(name).template.supports(problem, H200) is None
            assert 10**3 <= example(name).template.space(problem, H200).count() <= 10**6, problem


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile(arch: str) -> None:
    kernels = {}
    for name in NAMES:
        problem = example(name).problem()
        for schedule in sampled(problem, 1):
            kernels[f"{name} {schedule}"] = kernel_of(problem, schedule)
    for i, result in compile_many(shared_pool(), kernels.values(), arch):
        assert isinstance(result, Compiled), (list(kernels)[i], result)


@pytest.mark.parametrize("name", representative(NAMES, "reduction"))
def test_each_example_is_tuned_from_the_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [part for n, value in SMALL_SIZES[name][0].items() for part in ("--size", f"{n}={value}")]
    tune = ["tune", "--kernel", str(EXAMPLES / name / f"{name}.toml"), *sizes, "--backend", "estimate", "--json"]
    assert main([*tune, "--trials", "3", "--db", str(tmp_path / "own.db")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["trials"]["ok"] == 3 and document["best"]["error"] <= 1.0, "the best is verified"
    assert document["best"]["provenance"] == "estimated" and document["best"]["metrics"]


@pytest.mark.parametrize("name", representative(NAMES, "vector_add", "reduction"))
def test_verify_judges_the_problems_that_the_file_lists(
    name: str, capsys: pytest.CaptureFixture[str], nightly: bool
) -> None:
    """Each problem is verified at full size, or at the file's reduced size if the full size is too large to emulate."""
    sample = 2 if nightly else 1
    assert main(["verify", "--kernel", str(EXAMPLES / name / f"{name}.toml"), "--sample", str(sample)]) == 0
    assert capsys.readouterr().out.count(f"all {sample} pass") == len(example(name).problems)
