"""Emulation of plain CUDA kernels: no findings for correct kernels, and each planted fault found at its line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import CUDA_HEADERS, needs_compiler, needs_nvrtc

import autosched
from autosched.cli import main
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from measurements.compiler.nvrtc import NvrtcMissing

pytestmark = [needs_nvrtc, needs_compiler]

N = 256


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@dataclass(frozen=True)
class Fault:
    """A kernel that is correct if GOOD is defined. Otherwise the fault is in the line that ends in "// here"."""

    name: str
    kind: str
    source: str
    arguments: tuple[Any, ...] = field(default_factory=lambda: (np.zeros(N, np.float32), f32(N)))
    grid: int = 1
    block: int = 256


REVERSE = """
extern "C" __global__ void k(float* o, const float* a) {
  __shared__ float tile[256];
  tile[threadIdx.x] = a[threadIdx.x];
#ifdef GOOD
  __syncthreads();
#endif
  o[threadIdx.x] = tile[255 - threadIdx.x];  // here
}
"""
OFF_BY_ONE = """
extern "C" __global__ void k(float* o, const float* a) {
  __shared__ float tile[256];
#ifdef GOOD
  const int i = threadIdx.x;
#else
  const int i = threadIdx.x + 1;
#endif
  tile[i] = a[threadIdx.x];  // here
  __syncthreads();
  o[threadIdx.x] = tile[threadIdx.x];
}
"""
REDUCTION = """
extern "C" __global__ void k(float* o, const float* a) {
  __shared__ float part[256];
  part[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  for (int n = 128; n > 0; n /= 2) {
    if (threadIdx.x < n) {
      part[threadIdx.x] += part[threadIdx.x + n];  // here
    }
#ifdef GOOD
    __syncthreads();
#endif
  }
  if (threadIdx.x == 0) o[0] = part[0];
}
"""
UNINITIALISED = """
extern "C" __global__ void k(float* o, const float* a) {
  __shared__ float sums[8];
#ifdef GOOD
  if (threadIdx.x < 8) sums[threadIdx.x] = 0;
  __syncthreads();
#endif
  atomicAdd(&sums[threadIdx.x / 32], a[threadIdx.x]);  // here
  __syncthreads();
  if (threadIdx.x < 8) o[threadIdx.x] = sums[threadIdx.x];
}
"""
MASK = """
extern "C" __global__ void k(float* o, const float* a) {
  float x = a[threadIdx.x];
#ifdef GOOD
  const unsigned mask = 0xffffffffu;
#else
  const unsigned mask = 0x0000ffffu;
#endif
  for (int n = 16; n > 0; n /= 2) {
    x += __shfl_down_sync(mask, x, n);  // here
  }
  if (threadIdx.x % 32 == 0) o[threadIdx.x / 32] = x;
}
"""
READ_PAST = """
extern "C" __global__ void k(float* o, const float* a) {
  const int i = threadIdx.x;
#ifdef GOOD
  if (i + 1 < 256)
#endif
  o[i] = a[i + 1] - a[i];  // here
}
"""
LOST_ATOMIC = """
extern "C" __global__ void k(float* o, const float* a) {
#ifdef GOOD
  atomicAdd(&o[threadIdx.x % 8], a[threadIdx.x]);
#else
  o[threadIdx.x % 8] += a[threadIdx.x];  // here
#endif
}
"""
DOUBLE_WRITE = """
extern "C" __global__ void k(float* o, const float* a) {
#ifdef GOOD
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#else
  const int i = blockIdx.x * (blockDim.x / 2) + threadIdx.x;
#endif
  o[i] = a[i];  // here
}
"""
TAIL = """
extern "C" __global__ void k(float* o, const float* a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef GOOD
  if (i < n)
#endif
  o[i] = 2.0f;  // here
}
"""
CONFLICT = """
extern "C" __global__ void k(float* o, const float* a) {
#ifdef GOOD
  __shared__ float tile[32][33];
#else
  __shared__ float tile[32][32];
#endif
  const int row = threadIdx.x / 32, col = threadIdx.x % 32;
  for (int r = row; r < 32; r += 8) tile[r][col] = a[(r * 32 + col) % 256];
  __syncthreads();
  for (int r = row; r < 8; r += 8) {
    o[r * 32 + col] = tile[col][r];  // here
  }
}
"""

FAULTS = (
    Fault("missing_barrier", "shared_race", REVERSE),
    Fault("off_by_one", "out_of_bounds_shared", OFF_BY_ONE),
    Fault("race_in_a_reduction", "shared_race", REDUCTION),
    Fault("uninitialised_shared", "uninitialized_shared_read", UNINITIALISED),
    Fault("wrong_mask", "invalid_argument", MASK),
    Fault("read_past_the_end", "out_of_bounds_global", READ_PAST),
    Fault("lost_atomic", "global_race", LOST_ATOMIC),
    Fault("double_write", "global_race", DOUBLE_WRITE, (np.zeros(N, np.float32), f32(N)), grid=4, block=64),
    Fault("unguarded_tail", "out_of_bounds_global", TAIL, (np.zeros(250, np.float32), f32(250), 250), block=256),
)


def run(fault: Fault, good: bool) -> EmulatedLaunch:
    source = f"{'#define GOOD' if good else '// faulty'}\n{fault.source}"
    return autosched.emulate(source, arguments=fault.arguments, grid=fault.grid, block=fault.block, time_limit=20)


def line_of(fault: Fault) -> int:
    return 1 + next(k for k, line in enumerate(fault.source.splitlines(), 1) if line.endswith("// here"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_planted_fault_is_found_at_its_line(fault: Fault) -> None:
    emulation = run(fault, good=False)
    assert emulation.status == "findings", emulation.reason
    positions = {(f.kind.value, f.file, f.line) for f in emulation.findings}
    assert (fault.kind, "kernel.cu", line_of(fault)) in positions, [str(f) for f in emulation.findings]
    assert all(f.instruction.startswith("PTX line ") for f in emulation.findings if f.line)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_kernel_without_the_fault_has_no_findings(fault: Fault) -> None:
    result = run(fault, good=True)
    assert result.ok, [str(f) for f in result.findings] or result.reason


def test_bank_conflicts_are_counted_at_their_line() -> None:
    fault = Fault("conflict", "", CONFLICT)
    degrees = {
        good: [s.conflict_degree for s in run(fault, good).shared_sites if s.line == line_of(fault)]
        for good in (False, True)
    }
    assert degrees == {False: [32.0], True: [1.0]}


EVERYTHING = """
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
struct S { int a; float b; double c[3]; };
__device__ __noinline__ double power(S s, int n) { return n == 0 ? s.b : power(s, n - 1) * s.c[n % 3]; }
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int calls = 7;
extern "C" __global__ void k(float* o, const __half* h, S s, int n) {
  __shared__ float x[64];
  extern __shared__ float dynamic[];
  float local[8];
  for (int i = 0; i < 8; ++i) local[(i * n) % 8] = i;
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  x[threadIdx.x] = threadIdx.x;
  dynamic[threadIdx.x] = local[threadIdx.x % 8];
  block.sync();
  if (threadIdx.x == 0) printf("n = %d\\n", n);
  float y = table[threadIdx.x % 4] + x[63 - threadIdx.x] + dynamic[threadIdx.x ^ 1] + __half2float(__hadd(h[1], h[2]));
  y += tile.shfl_xor(y, 1) + calls;
  switch (s.a + threadIdx.x) {
    case 0: y += 1; break;
    case 1: y += power(s, 3); break;
    case 2: y += 5; break;
    case 3: y -= 1; break;
    case 4: y *= 2; break;
    case 5: y = 0; break;
    default: break;
  }
  o[threadIdx.x] = y;
}
"""


def test_features_of_cuda_cpp_run() -> None:
    if not CUDA_HEADERS:
        pytest.skip("CUDA's headers are not installed")
    struct = np.zeros((), np.dtype([("a", "i4"), ("b", "f4"), ("c", "f8", 3)]))
    struct["a"], struct["b"], struct["c"] = 0, 1.5, (2.0, 3.0, 4.0)
    h = np.arange(4, dtype=np.float16)
    result = autosched.emulate(
        EVERYTHING, arguments=(np.zeros(64, np.float32), h, struct[()], 3), grid=1, block=64, shared_bytes=256
    )
    assert result.ok, result.reason
    t = np.arange(64)
    local = np.zeros(8)
    local[np.arange(8) * 3 % 8] = np.arange(8)
    y = (t % 4 + 1) + (63 - t) + local[(t ^ 1) % 8] + 3.0
    y = y + y[t ^ 1] + 7
    y[0] += 1
    y[1] += 1.5 * 2.0 * 3.0 * 4.0
    y[2] += 5
    y[3] -= 1
    y[4] *= 2
    y[5] = 0
    assert np.array_equal(result.arrays[0], y.astype(np.float32))  # type: ignore[arg-type]


def test_verify_ptx_runs_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tail.cu"
    file.write_text(TAIL)
    launch = ["--argument", "out f32[250]", "--argument", "f32[250]", "--argument", "250", "--block", "256"]
    assert main(["verify", str(file), *launch, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(f["kind"], f["line"]) for f in document["findings"]] == [
        ("out_of_bounds_global", 1 + TAIL.splitlines().index("  o[i] = 2.0f;  // here"))
    ]
    assert document["findings"][0]["file"] == "tail.cu"


TICKETS = """
__device__ unsigned block = 0, warp = 0;
extern "C" __global__ void k(int* o) {
  if (threadIdx.x % 32 == 0 && atomicAdd(&warp, 1) % 4 != threadIdx.x / 32) __trap();
  if (threadIdx.x == 0 && atomicAdd(&block, 1) != blockIdx.x) __trap();
  if (threadIdx.x == 0) o[blockIdx.x] = 1;
}
"""


def test_verify_ptx_in_other_orders_and_several_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel is correct only in the first launch, and only if blocks draw their tickets in ascending order."""
    (tmp_path / "tickets.cu").write_text(TICKETS)
    verify = ["verify", str(tmp_path / "tickets.cu"), "--argument", "out i32[3]", "--grid", "3"]

    def outcome_of(*more: str) -> tuple[int, tuple[Any, ...], set[str]]:
        status = main([*verify, "--block", "128", "--json", *more])
        document = json.loads(capsys.readouterr().out)
        launch = tuple(document[key] for key in ("order", "turns", "launches"))
        return status, launch, {f["kind"] for f in document["findings"]} & {"trap"}

    assert outcome_of() == (1, ("ascending", 0, 1), {"trap"})  # the second run, in random order, fails
    assert outcome_of("--perturb", "--order", "ascending") == (0, ("ascending", 0, 1), set())
    assert outcome_of("--launches", "2", "--order", "ascending") == (1, ("ascending", 0, 2), {"trap"})
    for order in ("descending", "interleaved"):
        assert outcome_of("--order", order) == (1, (order, 0, 1), {"trap"})
    assert any(outcome_of("--turns", str(seed))[0] == 1 for seed in range(1, 5))


FLAG = """extern "C" __global__ void flag(int* done) {
  if (threadIdx.x > 4) *done = 1;
}
"""


def test_verify_grades_and_suppresses_findings_and_lists_omitted_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flag.cu").write_text(FLAG)
    verify = ["verify", str(tmp_path / "flag.cu"), "--argument", "i32[1]", "--grid", "2", "--block", "64"]
    assert main(verify) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("flag.cu:2: note: global_race: ") and "both write the same value" in out[0]
    assert out[1:] == [
        "not run: order=descending, order=interleaved, launches=2, perturb: --full runs them",
        "no fault was found",
    ]
    assert main([*verify, "--fail-on", "note"]) == 1
    capsys.readouterr()
    suppress = ("--suppress", "global_race:flag.cu:2:all store 1")
    assert main([*verify, "--fail-on", "note", *suppress]) == 0
    out = capsys.readouterr().out
    assert "suppressed: flag.cu:2: global_race, and flag.cu:2" in out and ": all store 1\n" in out
    assert main([*verify, *suppress, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["orders"] == ["ascending", "random, thread seed 1"] and not document["findings"]
    assert [(f["kind"], f["grade"], f["reason"]) for f in document["suppressed"]] == [
        ("global_race", "note", "all store 1")
    ]
    for bad in (("--fail-on", "error"), ("--suppress", "flag.cu:2")):
        assert main([*verify, *bad]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            ("--order", "backwards"),
            'invalid --order "backwards": write ascending, descending, alternating, interleaved or random',
        ),
        (("--turns", "-1"), "--turns must be at least 0, got -1"),
        (("--launches", "0"), "--launches must be at least 1, got 0"),
        (("--launches", "2000"), "--launches must be at most 1,000"),
    ],
)
def test_an_invalid_launch_is_rejected_in_one_line(
    more: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tickets.cu").write_text(TICKETS)
    for command in (
        ("verify", str(tmp_path / "tickets.cu")),
        ("verify", "matmul", "-m", "64", "-n", "64", "-k", "64"),
    ):
        assert main([*command, *more]) == 2
        assert capsys.readouterr().err == f"autosched: {says}\n"


def test_verify_reports_the_line_of_a_compile_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd name.cu"
    file.write_text("\n" + TAIL.replace("2.0f", "two"))
    assert main(["verify", str(file), "--block", "32"]) == 2
    line = 2 + TAIL.splitlines().index("  o[i] = 2.0f;  // here")
    assert capsys.readouterr() == ("", f'autosched: odd name.cu:{line}: identifier "two" is undefined\n')


def test_verify_ptx_of_cuda_source_needs_nvrtc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise NvrtcMissing("libnvrtc does not load")

    monkeypatch.setattr("measurements.compiler.ptx.ptx_toolchain", missing)
    (tmp_path / "tail.cu").write_text(TAIL)
    assert main(["verify", str(tmp_path / "tail.cu")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "pip install 'autosched[cuda13]'" in err
