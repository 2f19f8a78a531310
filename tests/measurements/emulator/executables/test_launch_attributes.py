"""Programs may launch kernels with attributes, for cooperative launches and for programmatic dependence in a stream."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from cuda_programs import cuda_program
from needs import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]

SOURCE = Path(__file__).parent / "corpus" / "dependent.cu"


def built(*options: str, arch: str = "sm_90") -> Path:
    return cuda_program(SOURCE, "-Xcompiler", "-g", f"-arch={arch}", *options)


@pytest.fixture(scope="module")
def program() -> Path:
    return built()


def run(program: Path, *arguments: str, device: str = "h100") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autosched", "run", "--device", device, str(program), *arguments]
    return forked_python.run(command, capture_output=True, text=True, timeout=250, check=False)


# In the last three cases the second kernel does not wait, but never overlaps the first.
@pytest.mark.parametrize("how", ["", "refilled", "ordinary", "synchronized", "copied"])
def test_chains_that_wait(program: Path, how: str) -> None:
    done = run(program, how)
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr


# A kernel may let the next kernel start before the kernel itself has waited for the preceding kernels. The next kernel
# is then not ordered after these preceding kernels, and may miss their writes.
@pytest.mark.parametrize(
    ("how", "kernel"),
    [("late", "second("), ("skipped", "third("), ("triggered", "second("), ("overwritten", "refill(")],
)
def test_a_dependent_launch_without_its_wait_is_a_race(program: Path, how: str, kernel: str) -> None:
    done = run(program, how)
    assert done.stdout == "PASS\n" and done.returncode == 1, done.stderr
    assert f"global_race in {kernel}" in done.stderr and "element" in done.stderr
    assert done.stderr.count("global_race") == 1
    assert "dependent.cu:" in done.stderr.partition("launch ")[2], "the finding names the line of the launch"


def test_gpus_before_sm_90_ignore_the_attribute() -> None:
    done = run(built(arch="sm_80"), "late", device="a100")
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr


def test_code_for_sm_80_has_no_wait_on_a_gpu_that_honours_the_attribute() -> None:
    done = run(built(arch="sm_80"))
    assert done.stdout == "PASS\n" and done.returncode == 1, done.stderr
    assert "global_race in second(" in done.stderr and "sm_90" in done.stderr


@pytest.mark.nightly
def test_a_barrier_of_the_grid_needs_a_cooperative_launch() -> None:
    program = built("-DMEET")
    done = run(program, "meets")
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr
    done = run(program, "parts")
    assert "PASS" not in done.stdout and done.returncode == 1, done.stderr
    assert "trap in meet(int*)" in done.stderr
