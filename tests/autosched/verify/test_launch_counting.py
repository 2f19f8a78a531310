"""Counts of a launch's instructions and bytes are extrapolated from sampled blocks at the true size."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import KernelSpec
from autosched.verify.launch_counting import counted, counted_runs
from cost_models.launch_time import CompiledResources, launch_time
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.emulator import emulate_ptx
from measurements.emulator.inputs_file import InputsFile
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand
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
KERNEL = KernelSpec(
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
    (counted_launch,) = counted(
        KERNEL.template, KERNEL.problem(), Schedule("counted_sums", tuple(config.items())), H200
    )
    assert counted_launch is not None
    return counted_launch.counts


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("strided", [0, 1])
def test_sectors_requests_and_instructions_are_counted(block: int, strided: int) -> None:
    counts, warps, loads = counts_of(block=block, strided=strided, times=1), block // 32, 1024 // 32
    assert (counts.blocks, counts.threads) == (4096, block)
    assert counts.unique_sectors == 1024 / 8, "each sector once, for any access pattern"
    assert counts.load_sectors == (128 if not strided else 1024), "strided loads use 4 bytes of a sector"
    assert counts.store_sectors == 1 and counts.dram_bytes == 4096 * 1024 * 4 + 4096 * 4 + 16
    assert counts.constant_requests == 4 * warps, "four addresses, loaded once a warp"
    executed = dict(counts.executed)
    assert executed["fma.rn.f32"] == loads
    assert executed["bar.sync"] == warps
    assert executed["st.shared.f32"] == warps
    assert counts.atomic_sectors == 0 and 0 < counts.code < 200


def test_operations_are_counted_by_lines_of_the_source() -> None:
    schedule, problem = Schedule("counted_sums", (("block", 32), ("strided", 0), ("times", 1))), KERNEL.problem()
    kernel = KERNEL.template.kernel(problem, schedule, H200)
    runs = counted_runs(kernel, InputsFile(problem.under(schedule.values).random_inputs(0)))
    assert runs
    for run in runs:
        of_file = [line for line in run.emulation.lines if line.operation == "fma.rn.f32"]
        assert {line.file for line in of_file} == {"counted_sums.cu"}
        assert sum(line.times for line in of_file) == 1024 // 32 * run.blocks
        together: dict[str, int] = {}
        for line in run.emulation.lines:
            together[line.operation] = together.get(line.operation, 0) + line.times
        assert together == dict(run.emulation.executed)


def test_sectors_that_a_block_reads_again_hit_l1() -> None:
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


@pytest.mark.parametrize(("in_flight", "cycles"), [(0, 480), (1, 240), (3, 120), (7, 60)])
def test_a_copys_latency_is_hidden_by_the_groups_in_flight(in_flight: int, cycles: int) -> None:
    """If a loop keeps ``in_flight`` groups of cp.async in flight, a copy has ``in_flight`` iterations to arrive."""
    text = f"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 in) {{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>; .shared .align 16 .b8 place[512];
  ld.param.u64 %rd1, [in]; cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.s64 %rd1, %rd1, %rd2;
  mov.u32 %r2, place; shl.b32 %r3, %r1, 4; add.s32 %r2, %r2, %r3; mov.u32 %r3, 0;
$next:
  cp.async.cg.shared.global [%r2], [%rd1], 16;
  cp.async.commit_group;
  cp.async.wait_group {in_flight};
  add.s64 %rd1, %rd1, 512; add.s32 %r3, %r3, 1;
  setp.lt.u32 %p, %r3, 64;
  @%p bra $next;
  cp.async.wait_group 0;
  ret;
}}
"""
    array = Operand("in", "inout", SCALAR_DTYPES["u8"], (64 * 512,))
    launch = Launch(entry="copies", arguments=(array,), grid=(1, 1, 1), block=(32, 1, 1))
    emulation = emulate_ptx(text, launch, {"in": np.zeros(64 * 512, np.uint8)}, check=False, count=True)
    assert emulation.status == "ok", emulation.reason
    warps, chain = emulation.chains
    assert warps == 1 and cycles <= chain / 64 < 1.2 * cycles + 15
