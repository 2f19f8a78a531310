"""Counts of launches: what some blocks do at the true sizes."""

from __future__ import annotations

import pytest

from autosched import Kernel
from autosched.proofs.launch_counting import counted
from cost_models.launch_time import CompiledResources, launch_time
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from search_spaces.hardware.devices import device
from search_spaces.hardware.launch_counts import LaunchCounts
from search_spaces.spaces.schedule import Schedule

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

H200 = device("h200")
SOURCE = """
__constant__ float weights[4];
__global__ void sums(float* out, const float* x, int n) {
  __shared__ float part[block];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += block) {
    int at = strided ? i * 8 % n + i * 8 / n : i;
    for (int again = 0; again < times; ++again) sum += __ldcv(x + (long long)blockIdx.x * n + at) * weights[i & 3];
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < block; ++i) sum += part[i];
    out[blockIdx.x] = sum;
  }
}
"""
KERNEL = Kernel(
    SOURCE,
    "sums",
    name="counted_sums",
    parameters={"block": [32, 128], "strided": [0, 1], "times": [1, 2]},
    sizes={"rows": 4096, "n": 1024},
    block="block",
    grid="rows",
    arguments=[
        {"name": "out", "kind": "output", "dtype": "f32", "shape": "rows"},
        {"name": "x", "kind": "input", "dtype": "f32", "shape": ["rows", "n"]},
        {"name": "n", "kind": "scalar", "value": "n"},
        {"name": "weights", "kind": "constant", "dtype": "f32", "shape": "4"},
    ],
)


def counts_of(**config: int) -> LaunchCounts:
    found = counted(KERNEL.template, KERNEL.problem(), Schedule("counted_sums", tuple(config.items())), H200)
    assert found is not None
    return found


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("strided", [0, 1])
def test_sectors_requests_and_instructions_are_those_of_the_kernel(block: int, strided: int) -> None:
    counts, warps, loads = counts_of(block=block, strided=strided, times=1), block // 32, 1024 // 32
    assert (counts.blocks, counts.threads) == (4096, block)
    assert counts.unique_sectors == 1024 / 8, "each sector once, however it is asked for"
    assert counts.load_sectors == (128 if not strided else 1024), "strided loads use 4 bytes of a sector"
    assert counts.store_sectors == 1 and counts.dram_bytes == 4096 * 1024 * 4 + 4096 * 4 + 16
    assert counts.constant_requests == 4 * warps, "four addresses, loaded once a warp"
    executed = dict(counts.executed)
    assert executed["fma.rn.f32"] == loads
    assert executed["bar.sync"] == warps
    assert executed["st.shared.f32"] == warps
    assert counts.atomic_sectors == 0 and 0 < counts.code < 200


def test_sectors_that_a_block_asks_for_again_are_found_in_l1() -> None:
    once, twice = counts_of(block=32, strided=0, times=1), counts_of(block=32, strided=0, times=2)
    assert twice.load_sectors == 2 * once.load_sectors
    assert twice.unique_sectors == once.unique_sectors
    assert once.chain_cycles < twice.chain_cycles < 2 * once.chain_cycles + 1000


def test_strided_loads_and_longer_loops_take_longer() -> None:
    resources = CompiledResources(32, 0, 512)

    def seconds(**config: int) -> float:
        return launch_time(counts_of(**config), H200, resources).seconds

    assert seconds(block=128, strided=0, times=1) < seconds(block=128, strided=1, times=1)
    assert seconds(block=128, strided=0, times=1) < seconds(block=128, strided=0, times=2)
