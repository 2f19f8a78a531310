"""A user's kernel is compiled, emulated and searched like built-in kernels."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiling import shared_pool

from autosched import tune
from autosched.user_kernels.user_kernel import KernelSpec
from measurements.compiler.pool import Compiled, CompileFailure
from measurements.emulator import emulate
from measurements.trials.comparison import check
from measurements.trials.measurement import Status
from search_spaces.catalogue import register
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

H200 = device("h200")
SOURCE = """
extern "C" __global__ void add(float* c, const float* a, const float* b) {
  int i = blockIdx.x * TILE * THREADS + threadIdx.x;
  for (int t = 0; t < TILE; ++t, i += THREADS)
    if (i < N) c[i] = a[i] + b[i];
}
"""


def add(passing: str, source: str = SOURCE, **changes: Any) -> KernelSpec:
    member = "Config::" if passing == "struct" else ""
    for macro, name in (("TILE", "tile"), ("THREADS", "threads")):
        source = source.replace(macro, member + name)
    options: dict[str, Any] = {
        "parameters": {"threads": [32, 64, 128], "tile": [1, 2, 4]},
        "sizes": {"n": 1000},
        "block": "threads",
        "grid": "ceil_div(n, threads * tile)",
        "defines": {"N": "n"},
        "arguments": [
            {"name": name, "kind": "output" if name == "c" else "input", "dtype": "f32", "shape": "n"} for name in "cab"
        ],
        "reference": lambda a, b: a + b,
        "parameters_as": passing,
    }
    return KernelSpec(source, "add", **{**options, **changes})


@pytest.mark.parametrize("passing", ["define", "constexpr", "struct"])
def test_every_way_of_passing_parameters_compiles_and_computes(passing: str) -> None:
    kernel = add(passing)
    problem = kernel.problem()
    inputs = problem.random_inputs(0)
    for schedule in kernel.template.space(problem, H200).sample(2, 0):
        generated = kernel.template.kernel(problem, schedule, H200)
        assert isinstance(shared_pool().compile(generated, H200.arch), Compiled)
        assert check(problem, inputs, emulate(generated, inputs).outputs).ok


def test_a_user_kernel_is_tuned_like_any_other(tmp_path: Path) -> None:
    kernel = add("define", name="tuned_by_a_test", cost={"bytes": "12 * n"})
    register(kernel.operator, kernel.template)
    result = tune(
        kernel.problem(), trials=3, database=tmp_path / "own.db", device="h200", backend="estimate", workers=1
    )
    assert [t.measurement.status for t in result.trials] == [Status.OK] * 3
    assert result.best is not None and result.best.schedule.template == "tuned_by_a_test"


def test_a_compile_error_names_the_users_file_and_line() -> None:
    kernel = add("define", SOURCE.replace("a[i] + b[i]", "a[i] + d[i]"))
    schedule = Schedule("add", (("threads", 32), ("tile", 1)))
    result = shared_pool().compile(kernel.template.kernel(kernel.problem(), schedule, H200), H200.arch)
    assert isinstance(result, CompileFailure)
    assert result.reason == 'add.cu:5: identifier "d" is undefined'


def test_options_reach_the_compiler() -> None:
    kernel = add("define", options=["--use_fast_math"])
    schedule = Schedule("add", (("threads", 32), ("tile", 1)))
    assert kernel.template.kernel(kernel.problem(), schedule, H200).compile_options == ("--use_fast_math", "-lineinfo")


def test_equal_files_of_two_folders_read_their_own_folder(tmp_path: Path) -> None:
    """Kernel files with equal contents stay distinct, since either folder may be deleted."""
    kernels = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.cu").write_text("__global__ void k(float* x, const float* y) { x[threadIdx.x] = y[threadIdx.x]; }")
        (folder / "r.py").write_text("def same(y):\n    return y\n")
        (folder / "k.toml").write_text(
            """
            argument = [
              { name = "x", kind = "output", dtype = "f32", shape = 32 },
              { name = "y", kind = "input", dtype = "f32", shape = 32 },
            ]
            kernel = { source = "k.cu", entry = "k", name = "two_folders" }
            parameters = { b = [1, 2] }
            launch = { block = 32, grid = "b" }
            reference = { python = "r.py:same" }
            """
        )
        kernels.append(KernelSpec.from_file(folder / "k.toml"))
    first, second = (kernel.problem() for kernel in kernels)
    assert kernels[0] == kernels[1] and first.to_json() == second.to_json()
    shutil.rmtree(tmp_path / "first")
    inputs = second.random_inputs(0)
    np.testing.assert_array_equal(second.reference(inputs)["x"], inputs["y"])
