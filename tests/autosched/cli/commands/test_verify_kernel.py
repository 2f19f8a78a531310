"""`autosched verify FILE` for a kernel: typical files, arrays, references, symbols, and saved outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ended_processes import wait_until_ended
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from autosched.cli.options.arrays import read_argument
from autosched.cli.terminal.errors import InputError
from autosched.verify.emulate.device_source import device_part, has_host_code
from measurements.compiler import nvcc
from search_spaces.launches.headers import Headers

pytestmark = [needs_nvrtc, needs_compiler]

WHOLE = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <cassert>
#define CHECK(x) \\
  do { if ((x) != cudaSuccess) { printf("no\\n"); exit(1); } } while (0)
using namespace std;
typedef float real;
const int K = 4;
static std::vector<int> hosts;
struct P { float x; __host__ __device__ float twice() const { return 2 * x; } };
__constant__ float taps[K];
namespace a {
template <class T> __device__ T square(T x) { return x * x; }
int host_only(int x) { return x + hosts.size(); }
}
extern "C" {
__global__ void k(real* out, const real* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(n > 0);
  if (i < n) out[i] = a::square(in[i]) + P{1.0f}.twice() + taps[i % K];
  if (i == 0) printf("n is %d\\n", n);
}
}
int helper(const char* s) {
  // a comment with } in it
  return s[0] == '}';
}
int main(int argc, char** argv) {
  float* d;
  CHECK(cudaMalloc(&d, 64 * 4));
  k<<<1, 64>>>(d, d, 64);
  return 0;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("measurements.compiler.compiler_choice._nvcc_installed", lambda: False)
    Path("whole.cu").write_text(WHOLE)
    return tmp_path


def test_the_device_part_keeps_its_lines() -> None:
    assert has_host_code(WHOLE)
    part = device_part(WHOLE)
    assert part.count("\n") == WHOLE.count("\n")
    for gone in ("main", "helper", "host_only", "std::vector<int>", "using namespace"):
        assert gone not in part
    texts = {"__global__ void k(", "struct P", "taps[K]", "square(T x)", "const int K = 4;", "typedef float real;"}
    for line, original in zip(part.splitlines(), WHOLE.splitlines(), strict=True):
        assert line in ("", " ", original) or line.strip() in original
    assert all(text in part for text in texts)


def test_a_file_with_host_code_is_run_and_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(50, dtype=np.float32)
    np.save("x.npy", x)
    np.save("taps.npy", np.float32([1, 2, 3, 4]))
    np.save("expected.npy", x * x + 2 + np.float32([1, 2, 3, 4])[np.arange(50) % 4])
    line = ["verify", "whole.cu", "-a", "out f32[50]", "-a", "x.npy", "-a", "50", "--block", "64"]
    line += ["--symbol", "taps=taps.npy", "--keep", "kept"]
    assert main([*line, "--expect", "0=expected.npy"]) == 0
    printed = capsys.readouterr().out
    assert "n is 50" in printed and "argument 0: as expected" in printed
    np.testing.assert_array_equal(np.load("kept/0.npy"), np.load("expected.npy"))
    np.save("expected.npy", np.load("expected.npy") + (np.arange(50) == 7))
    assert main([*line, "--expect", "0=expected.npy", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "ok" and document["printed"] == "n is 50\n"
    assert document["differences"]["0"].startswith("1 of 50 elements differ, the first is element 7")


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "status"),
    [
        (np.float16, 65504, np.inf, 0),
        (np.float16, np.inf, 65504, 0),
        (np.float16, -65504, np.inf, 1),
        (np.float16, 60000, np.inf, 1),
        (np.float32, 3e38, np.inf, 1),
        (np.int64, 2**53 + 1, 2**53, 1),
        (np.int64, 2**53 + 1, 2**53 + 1, 0),
    ],
)
def test_expected_values_next_to_the_limits_of_their_type(
    folder: Path, dtype: type, actual: float, expected: float, status: int
) -> None:
    Path("nothing.cu").write_text('extern "C" __global__ void nothing(const void*) {}')
    np.save("found.npy", np.array([actual], dtype))
    np.save("expected.npy", np.array([expected], dtype))
    tolerance = ["--tolerance", "0" if dtype is np.int64 else "0.001"]
    line = ["verify", "nothing.cu", "-a", "found.npy", "--expect", "0=expected.npy", *tolerance]
    assert main(line) == status


def test_unset_symbols_are_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["verify", "whole.cu", "-a", "out f32[64]", "-a", "range f32[64]", "-a", "64", "--block", "64"]
    assert main(line) == 1
    assert "whole.cu:23: unset_symbol" in capsys.readouterr().out


COUNTED = """
__device__ unsigned count;
__global__ void k(int* o) {
  if (threadIdx.x == 0 && atomicAdd(&count, 1) > 0) __trap();
  o[threadIdx.x] = 1;
}
"""


def test_full_finds_faults_of_a_second_launch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("counted.cu").write_text(COUNTED)
    line = ["verify", "counted.cu", "-a", "out i32[32]"]
    assert main(line) == 0
    assert "not run" in capsys.readouterr().out
    assert main([*line, "--full"]) == 1
    out = capsys.readouterr().out
    assert "trap" in out and "not run" not in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["verify", "nothing.cu"], "nothing.cu cannot be read"),
        (["verify", "whole.cu", "-a", "f33[4]"], 'invalid --argument "f33[4]"'),
        (["verify", "whole.cu", "-a", "1e400"], "too large"),
        (["verify", "whole.cu", "-a", "9" * 5000], "too large"),
        (["verify", "whole.cu", "-a", "none.npy"], "none.npy cannot be read"),
        (["verify", "whole.cu", "-a", "f32[4]", "--expect", "3=x.npy"], "invalid --expect"),
        (["verify", "whole.cu", "--symbol", "taps"], "invalid --symbol"),
        (["verify", "whole.cu", "--grid", "0"], "invalid --grid"),
        (
            ["verify", "whole.cu", "-a", "f64[64]", "-a", "f32[64]", "-a", "1"],
            "argument 0 (out) is an array of float64",
        ),
        (["verify", "whole.cu:zz"], "zz"),
    ],
)
def test_invalid_input_is_rejected_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], line: list[str], message: str
) -> None:
    assert main(line) == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out
    assert len((captured.err + captured.out).splitlines()) == 1


def test_arrays_are_read_from_text() -> None:
    rng = np.random.default_rng(0)

    def array_of(text: str) -> np.ndarray:  # type: ignore[type-arg]
        return read_argument(text, rng, "--argument")[0]  # type: ignore[no-any-return]

    assert array_of("zeros f32[2,3]").tolist() == [[0.0] * 3] * 2
    assert array_of("range i32[4]").tolist() == [0, 1, 2, 3]
    assert array_of("fill=7 u8[2]").tolist() == [7, 7]
    assert array_of("ones f16[2]").dtype == np.float16
    assert array_of("f32[100]").std() > 0.5
    assert [array_of(text) for text in ("1e30", "-inf", "0x10", "9" * 30)] == [1e30, -np.inf, 16, 10**30 - 1]
    assert read_argument("out f32[4]", rng, "--argument")[1] is True
    assert read_argument("null", rng, "--argument") == (None, False)
    assert read_argument("0x10", rng, "--argument") == (16, False)
    with pytest.raises(InputError, match="fill"):
        array_of("fill=x f32[2]")


WAITS_FOR_THE_LAUNCH_BEFORE = (
    '__global__ void k(int* x) { asm volatile("griddepcontrol.wait;"); x[threadIdx.x] += 1; }\n'
    "int main() { k<<<1, 32>>>(nullptr); }\n"
)


@pytest.fixture
def fake_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a fake nvcc script first on the PATH. ``$output`` is the script's output file."""

    def install(body: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "nvcc"
        read_output = 'while [ "$1" != -o ]; do shift; done\noutput=$2\n'
        script.write_text(f"#!/bin/sh\n{read_output}{body}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return install


OF_ITS_HOST_CODE = (
    "#include <algorithm>\n"
    "static const int FIRST = std::max(1, 2);\n"
    "__global__ void k(int* x) { x[threadIdx.x] += 1 + 0 * undeclared; }\n"
    "int main() { k<<<1, 32>>>(nullptr); }\n"
)


def test_nvrtc_compiles_the_device_part_without_nvcc(
    fake_nvcc: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvcc(f"touch {tmp_path}/asked; exit 2")
    file = tmp_path / "k.cu"
    file.write_text(WAITS_FOR_THE_LAUNCH_BEFORE)
    assert main(["verify", str(file), "-a", "i32[32]"]) == 0
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("body", ["exit 3", "exit 0", "cat > $output", "kill -9 $$"])
def test_nvrtc_reports_the_error_if_nvcc_does_not_work(
    body: str, fake_nvcc: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvcc(body)
    file = tmp_path / "k.cu"
    file.write_text(OF_ITS_HOST_CODE)
    assert main(["verify", str(file), "-a", "i32[32]"]) == 2
    stderr = capsys.readouterr().err
    assert "undeclared" in stderr and len(stderr.splitlines()) == 1


def test_nvcc_reports_the_error_if_it_read_the_source(
    fake_nvcc: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvcc("echo 'k.cu(1): error: no such feature' >&2; exit 2")
    file = tmp_path / "k.cu"
    file.write_text(OF_ITS_HOST_CODE)
    assert main(["verify", str(file), "-a", "i32[32]"]) == 2
    printed = capsys.readouterr()
    assert "no such feature" in printed.err and not printed.out


def test_nvcc_is_killed_with_the_programs_that_it_starts(
    fake_nvcc: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvcc(f"sleep 600 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(nvcc, "SECONDS", 1.0)
    assert nvcc.compile_to_ptx("", "", "compute_90a", Headers.of({}), ()).text is None
    wait_until_ended(int((tmp_path / "child").read_text()))


ATTRIBUTES = """
extern "C" __global__ void k(const int* x, int* out) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (WAITS) asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i] + rank;
}
"""


def test_launch_attributes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.cu"
    file.write_text(ATTRIBUTES)

    def verified(*options: str, waits: bool = False) -> int:
        arrays = ("-a", "zeros i32[128]", "-a", "out i32[128]", "--grid", "4", "--keep", str(tmp_path))
        compiler = ("--option=-arch=sm_90", f"--option=-DWAITS={int(waits)}")
        return main(["verify", str(file), *arrays, *compiler, *options])

    assert verified("--cluster", "2") == 0
    assert np.load(tmp_path / "1.npy").tolist() == [*[0] * 32, *[1] * 32] * 2
    assert verified("--dependent", "0") == verified("--dependent", "all") == 1
    assert "global_race" in capsys.readouterr().out
    assert verified("--dependent", "all", waits=True) == verified("--cooperative") == 0
    capsys.readouterr()
    for wrong in ("2", "x", "0,"):
        assert verified("--dependent", wrong) == 2
    assert verified("--cooperative", "--dependent", "all") == verified("--cluster", "3") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 5
