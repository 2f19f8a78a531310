"""Sampled blocks of a large launch read the same inputs as the reference, even at offsets beyond 2^32 elements."""

from __future__ import annotations

import numpy as np
import pytest

from measurements.emulator import emulate, emulate_blocks
from measurements.emulator.sparse import generated, seeds_of
from search_spaces.hardware.dtypes import BF16, F16, F32, U8, U16, U32, DType
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.launches.operand import Operand

COPY_LAST = """
#include <autosched/ptx/global_memory.cuh>
extern "C" __global__ void copy_some(const TYPE* x, TYPE* out) {
  const long long at = blockIdx.x * STRIDE + threadIdx.x;
  autosched::ptx::st_global(out + at, autosched::ptx::ld_global_nc<sizeof(TYPE)>(x + at));
}
"""
WIDE = 2**33 + 4096  # elements
STRIDE = 2**32


MANY_STORES = """
#include <autosched/ptx/global_memory.cuh>
extern "C" __global__ void copy_some(const TYPE* x, TYPE* out) {
  const long long at = blockIdx.x * STRIDE + threadIdx.x;
  const auto value = autosched::ptx::ld_global_nc<sizeof(TYPE)>(x + at);
  for (int i = 0; i < 40000; ++i) {
    autosched::ptx::st_global(out + at + 64 * i, value);
    __syncthreads();
  }
}
"""


def copy_kernel(dtype: DType, size: int, stride: int, blocks: int, source: str = COPY_LAST) -> GeneratedKernel:
    return GeneratedKernel(
        entry="copy_some",
        source=source.replace("TYPE", dtype.c_name).replace("STRIDE", f"{stride}ll"),
        arguments=(Operand("x", "input", dtype, (size,)), Operand("out", "output", dtype, (size,))),
        grid=(blocks, 1, 1),
        block=(64, 1, 1),
        headers=Headers.from_folder(include_dir()),
    )


@pytest.mark.parametrize("dtype", [F16, BF16, F32, U8, U16, U32], ids=lambda d: d.name)
def test_the_runner_makes_the_inputs_of_the_reference_beyond_32_bits(dtype: DType) -> None:
    kernel = copy_kernel(dtype, WIDE, STRIDE, 3)
    done = emulate_blocks(kernel, [0, 2], seed=5)
    assert done.ok, done.reason
    out = done.elements["out"]
    assert out.positions.tolist() == [*range(64), *range(2 * STRIDE, 2 * STRIDE + 64)]
    assert out.blocks.tolist() == [0] * 64 + [2] * 64
    expected = generated(dtype, seeds_of(kernel, 5)["x"], out.positions)
    assert out.values.tobytes() == expected.tobytes()
    assert np.unique(expected).size > 4


def test_clearing_write_records_does_not_scan_the_whole_array() -> None:
    kernel = copy_kernel(U8, WIDE, STRIDE, 2, MANY_STORES)
    done = emulate_blocks(kernel, [1], seed=5, time_limit=30)
    assert done.ok, done.reason
    assert done.elements["out"].positions.size == 64 * 40000


def test_constants_of_the_source_are_initialised() -> None:
    source = """
    __constant__ TYPE powers[4] = {1, 2, 4, 8};
    extern "C" __global__ void copy_some(const TYPE* x, TYPE* out) {
      out[blockIdx.x * STRIDE + threadIdx.x] = powers[threadIdx.x & 3];
    }
    """
    done = emulate_blocks(copy_kernel(U32, WIDE, STRIDE, 3, source), [1])
    assert done.ok, done.reason
    assert done.elements["out"].values.tolist() == [1, 2, 4, 8] * 16


def test_generated_floats_are_small_integers_and_bits_are_never_all_ones() -> None:
    values = F16.load(generated(F16, 1, np.arange(5000)))
    assert set(values.tolist()) == {-3.0, -2.0, -1.0, 1.0, 2.0, 3.0}
    assert generated(U8, 1, np.arange(5000)).max() == 254
    assert (generated(F16, 1, np.arange(64)) != generated(F16, 2, np.arange(64))).any()


def test_sampled_blocks_have_the_findings_of_all() -> None:
    past_the_end = copy_kernel(F32, 64, 64, 2)
    sampled = emulate_blocks(past_the_end, [1])
    assert [str(f.kind) for f in sampled.findings] == ["out_of_bounds_global"]
    complete = emulate(past_the_end, {"x": np.zeros(64, dtype=np.float32)})
    assert [f.message for f in complete.findings] == [f.message for f in sampled.findings]


BEYOND_THE_END = """
extern "C" __global__ void copy_some(const float* x, float* out) {
  __shared__ float tile[64];
  const long long t = threadIdx.x, at = blockIdx.x * STRIDE + t;
  if (t < 40) tile[t] = x[at];
  __syncthreads();
  out[at] = t < MOST ? 2 * tile[t] : x[at];
}
"""


@pytest.mark.parametrize(("weight", "grade"), [("0", "note"), ("-1", "fault")])
def test_irrelevant_uninitialised_shared_reads_are_a_note(weight: str, grade: str) -> None:
    source = BEYOND_THE_END.replace("t < MOST ? 2 * tile[t] : x[at]", f"fminf({weight} * fabsf(tile[t]), 0.0f) + x[at]")
    findings = emulate_blocks(copy_kernel(F32, WIDE, STRIDE, 3, source), [2]).findings
    assert [(str(f.kind), f.grade) for f in findings] == [("uninitialized_shared_read", grade)]


@pytest.mark.parametrize("blocks", [[], [3], [-1], [0, 0]])
def test_blocks_outside_the_grid_are_rejected(blocks: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct numbers from 0 to 2"):
        emulate_blocks(copy_kernel(U8, 4096, 64, 3), blocks)
