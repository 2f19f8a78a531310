"""Cost counts that the emulator makes of a kernel that states none."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.proofs.emulated_counts import emulated_counts
from autosched.user_kernels.problem import problem_type
from autosched.user_kernels.reading import read_file
from autosched.user_kernels.template import template
from cost_models.analytic import predict
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from search_spaces.hardware.devices import device

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

H200 = device("h200")
SOURCE = """
__global__ void sums(float* out, const float* x, int n) {
  __shared__ float part[block];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += block) {
    int at = strided ? i * 8 % n + i * 8 / n : i;
    sum += x[(long long)blockIdx.x * n + at];
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < block; ++i) sum += part[i];
    out[blockIdx.x] = sum;
  }
}
"""
TOML = """
[kernel]
source = "sums.cu"
entry = "sums"

[sizes]
n = 1024
rows = 256

[parameters]
block = [32, 128]
strided = [0, 1]

[launch]
block = "block"
grid = "rows"

[[argument]]
name = "out"
kind = "output"
dtype = "f32"
shape = "rows"

[[argument]]
name = "x"
kind = "input"
dtype = "f32"
shape = ["rows", "n"]

[[argument]]
name = "n"
kind = "scalar"
value = "n"

[proxy]
rows = 8

[reference]
python = "reference.py:sums"
"""


def test_bytes_requests_and_turns_are_those_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "sums.cu").write_text(SOURCE)
    (tmp_path / "reference.py").write_text("def sums(x):\n    return x.sum(axis=1)\n")
    (tmp_path / "sums.toml").write_text(TOML)
    file = read_file(str(tmp_path / "sums.toml"))
    row, problem = template(file), problem_type(file).of({})
    assert row.counts is None and row.proxy is not None
    seconds = {}
    for schedule in row.space(problem, H200).sample(4, 0):
        counts = emulated_counts(row, problem, schedule, H200)
        assert counts is not None
        block, strided = schedule.integer("block"), schedule["strided"]
        assert (counts.blocks, counts.threads) == (256, block)
        assert counts.load_bytes == (4096 if not strided else 8 * 4096), "strided loads use 4 bytes of a sector"
        assert counts.store_bytes == 32 and counts.dram_bytes == 256 * 1024 * 4 + 256 * 4
        assert counts.iterations == 1024 // block
        seconds[block, strided] = predict(counts, H200)
    assert seconds[128, 1] > seconds[128, 0]
