"""Stores of different numbers are a race, even if the numbers differ by less than the tolerance for large inputs."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched

pytestmark = [needs_nvrtc, needs_compiler, needs_cuda_headers]

# Softmax of one row per block, where every block wrongly writes row 0. The large mask value contributes to no result.
SOFTMAX = """#include <cuda_fp16.h>
extern "C" __global__ void softmax(__half* out, const float* x, int n) {
  const int i = threadIdx.x;
  float v = i < n ? x[blockIdx.x * n + i] : -1.0e6f;
  float m = v;
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  const float e = __expf(v - m);
  float s = e;
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  if (i < n) out[i] = __float2half(e / s);
}"""
SCALED = """#include <cuda_fp16.h>
extern "C" __global__ void scaled(__half* out, const float* x, float big) {
  out[0] = __float2half(x[threadIdx.x] * big * (1.0f / 1048576.0f));
}"""
# Threads race to store different small numbers in element 0, and nearly equal large numbers in element 1.
BESIDE_LARGE = """#include <cuda_bf16.h>
extern "C" __global__ void beside_large(__nv_bfloat16* out, const float* x) {
  out[threadIdx.x & 1] = __float2bfloat16(x[threadIdx.x]);
}"""
SMALL = np.linspace(0.001, 0.03, 32, dtype=np.float32)
CASES = {
    "rows of a softmax": (
        SOFTMAX,
        [np.zeros(30, np.float16), np.linspace(-1, 1, 120, dtype=np.float32).reshape(4, 30), 30],
        4,
    ),
    "a number that is scaled": (
        SCALED,
        [np.zeros(4, np.float16), np.linspace(0.01, 0.97, 32, dtype=np.float32), 2.0**20],
        1,
    ),
    "small numbers beside large ones": (
        BESIDE_LARGE,
        [np.zeros(2, np.uint16), np.where(np.arange(32) % 2, np.float32(1) + SMALL / 30, SMALL).astype(np.float32)],
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_different_numbers_of_16_bits_race(case: str) -> None:
    source, arguments, grid = CASES[case]
    emulation = autosched.emulate(source, arguments=arguments, grid=grid, block=32)
    assert not emulation.ok and "global_race" in {str(finding.kind) for finding in emulation.findings}
