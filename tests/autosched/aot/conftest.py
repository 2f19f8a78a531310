"""Fixture that exports six kernels of different kinds.

The six are softmax, a matmul with TMA and clusters, a matmul with split-K, a user's kernel with variable sizes, a
kernel that reads constant memory, and a pipeline of two launches.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import forked_python
import pytest
from needs import cpp_compiler
from store_trials import make_trial

from autosched.user_kernels.user_kernel import KernelSpec
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
SOFTMAX = Softmax(rows=64, columns=512, dtype="f32")  # the problem of examples/standalone
CLUSTERED = Matmul(m=128, n=128, k=64, a="bf16")
SHARED = Matmul(m=64, n=64, k=64, a="f16")
_TIMED = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing(1e-5, 1e-5, 1e-5, 1))


@dataclass(frozen=True)
class Export:
    folder: Path
    database: Path
    vector_add: KernelSpec
    smooth: KernelSpec
    sum_twice: KernelSpec
    said: str

    def text(self, problem: Problem) -> str:
        """Return the name of a problem in the manifest. A calling program passes this name to the launcher."""
        entries = json.loads((self.folder / "manifest.json").read_text())["kernels"]
        return next(e["problem"] for e in entries if json.loads(e["provenance"]["problem"]) == problem.to_json())


def chosen(problem: Problem, name: str, of: str, **values: int | str) -> Schedule:
    """Return the first schedule with these parameter values from a sample with a fixed seed."""
    space = template(name).space(problem, device(of))
    return next(s for s in space.sample(4000, 0) if all(s[parameter] == value for parameter, value in values.items()))


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("export")
    kernel = ROOT / "examples" / "vector_add" / "vector_add.toml"
    vector_add = KernelSpec.from_file(kernel)
    vectors = vector_add.problem(n=10007)
    smooth = KernelSpec.from_file(HERE / "smooth.toml")
    smoothed = smooth.problem(n=1000)
    sum_twice = KernelSpec.from_file(HERE / "sum_twice.toml")
    summed = sum_twice.problem()
    space = vector_add.template.space(vectors, device("a100"))
    entries = [
        (SOFTMAX, "h200", chosen(SOFTMAX, "row_reduction", "h200")),
        (CLUSTERED, "h200", chosen(CLUSTERED, "wgmma_matmul", "h200", copy_a="tma", copy_b="tma", cluster_m=2)),
        (SHARED, "a100", chosen(SHARED, "matmul", "a100", split_k=2)),
        (vectors, "a100", space.sample(1, 0)[0]),
        (smoothed, "a100", smooth.template.space(smoothed, device("a100")).sample(1, 0)[0]),
        (summed, "a100", sum_twice.template.space(summed, device("a100")).sample(1, 0)[0]),
    ]
    database = folder / "best.db"
    with Store.open(database) as store:
        for problem, name, schedule in entries:
            store.append(replace(make_trial(schedule, _TIMED, problem, name), fingerprint="{}"))
    # Export in a separate process: an export registers kernels, which would affect other tests.
    command = [sys.executable, "-m", "autosched", "export", "--db", str(database), "--cubin", str(folder / "kernels")]
    completed = forked_python.run(
        [*command, "--ptx", *(f"--kernel={file}" for file in (kernel, HERE / "smooth.toml", HERE / "sum_twice.toml"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert completed.returncode == 0, completed.stderr
    return Export(folder / "kernels", database, vector_add, smooth, sum_twice, completed.stdout)


def compiled(to: Path, source: Path, *options: str) -> Path:
    command = [
        cpp_compiler(),
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        *options,
        str(source),
        "-o",
        str(to),
        "-ldl",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    return to


@pytest.fixture(scope="session")
def caller(export: Export) -> Path:
    return compiled(export.folder.parent / "caller", HERE / "caller.cpp", f"-I{export.folder}")
