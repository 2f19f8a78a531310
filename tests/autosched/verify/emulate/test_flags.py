"""Flags in shared or global memory, instead of barriers, order the threads of a block.

Correct kernels have no findings. A missing fence, release or acquire is reported (PTX ISA, memory consistency model:
release and acquire patterns).
"""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from measurements.emulator import ASCENDING, Order

pytestmark = [needs_nvrtc, needs_compiler]

# Warp 0 fills a buffer and sets a flag. Warp 1 waits for the flag.
HANDED_OVER = """
extern "C" __global__ void kernel(int* o) {
  __shared__ int data[32];
  __shared__ volatile int flag;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    data[lane] = lane * 3;
    __syncwarp();
    if (lane == 0) {
      __threadfence_block();
      flag = 1;
    }
  } else {
    while (flag == 0) {}
    __threadfence_block();
    o[lane] = data[31 - lane];
  }
}"""
# The last warp adds up the partial results of all warps. Lane 0 detects by an atomic counter that its warp is the last.
LAST_WARP = """
extern "C" __global__ void kernel(int* o) {
  __shared__ int part[8];
  __shared__ unsigned count;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int sum = __reduce_add_sync(~0u, threadIdx.x);
  int last = 0;
  if (lane == 0) {
    part[threadIdx.x / 32] = sum;
    __threadfence_block();
    last = atomicAdd(&count, 1) == 7;
    __threadfence_block();
  }
  __syncwarp();
  last = __shfl_sync(~0u, last, 0);
  if (last) o[lane] = lane < 8 ? part[lane] : 0;
}"""
# The same algorithm with the flags in global memory. The atomics have memory orders at block scope.
TICKET = """
extern "C" __global__ void kernel(int* o, int* data, unsigned* ticket) {
  data[threadIdx.x] = threadIdx.x;
  __syncwarp();
  unsigned before = 0;
  if (threadIdx.x % 32 == 0)
    asm volatile("atom.acq_rel.cta.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(ticket) : "memory");
  before = __shfl_sync(~0u, before, 0);
  if (before == 1) o[threadIdx.x % 32] = data[31 - threadIdx.x % 32] + data[63 - threadIdx.x % 32];
}"""
LANE = np.arange(32)
KERNELS = {
    "handed over": (HANDED_OVER, 64, (31 - LANE) * 3),
    "last warp": (LAST_WARP, 256, np.where(LANE < 8, LANE * 1024 + 496, 0)),
    "ticket": (TICKET, 64, 94 - 2 * LANE),
}


def run(name: str, old: str = "", new: str = "", order: Order = ASCENDING) -> EmulatedLaunch:
    source, block, _ = KERNELS[name]
    assert old in source
    more = (np.zeros(64, np.int32), np.zeros(1, np.uint32)) if name == "ticket" else ()
    arguments = (np.zeros(32, np.int32), *more)
    source = source.replace(old, new, 1) if old else source
    return autosched.emulate(source, arguments=arguments, grid=1, block=block, outputs=(0,), order=order)


@pytest.mark.parametrize("name", KERNELS)
def test_flags_order_the_threads_of_a_block(name: str) -> None:
    emulation = run(name)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[0], KERNELS[name][2])


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("handed over", "      __threadfence_block();\n      flag", "      flag"),
        ("handed over", "{}\n    __threadfence_block();", "{}"),
        ("handed over", "    __syncwarp();\n    if (lane == 0) {\n", "    if (lane == 0) {\n"),
        ("handed over", "__threadfence_block();\n      flag = 1;", "flag = 1; __threadfence_block();"),
        ("last warp", "    __threadfence_block();\n    last", "    last"),
        ("last warp", "== 7;\n    __threadfence_block();", "== 7;"),
        ("last warp", "== 7;", "== 6;"),
        ("last warp", "atomicAdd(&count, 1)", "count++"),
        ("ticket", "atom.acq_rel.cta", "atom.relaxed.cta"),
        ("ticket", "atom.acq_rel.cta", "atom.acquire.cta"),
        ("ticket", "atom.acq_rel.cta", "atom.release.cta"),
        ("ticket", "before == 1", "before == 0"),
    ],
)
def test_accesses_not_ordered_by_a_flag_are_a_race(name: str, old: str, new: str) -> None:
    kinds = {str(f.kind) for f in run(name, old, new).findings}
    assert kinds & {"shared_race", "global_race"}, kinds


@pytest.mark.parametrize("name", KERNELS)
def test_flags_order_threads_in_every_schedule(name: str) -> None:
    for seed in (1, 2, 3):
        emulation = run(name, order=Order("ascending", seed))
        if name != "ticket":  # in this kernel, the order decides which warp is last
            assert emulation.ok, emulation.reason


def test_a_missing_wait_is_found_in_other_orders() -> None:
    fault = ("handed over", "while (flag == 0) {}", "flag;")
    assert run(*fault).ok, "warp 0 happens to be first"
    assert any(not run(*fault, Order("ascending", seed)).ok for seed in range(1, 9))


@pytest.mark.parametrize("launches", [1, 2, 3])
def test_each_launch_must_write_the_outputs(launches: int) -> None:
    plain = 'extern "C" __global__ void kernel(float* o, const float* x) { o[threadIdx.x] = 2.0f * x[threadIdx.x]; }'
    x = np.arange(32, dtype=np.float32)
    emulation = autosched.emulate(
        plain, arguments=(np.empty_like(x), x), grid=1, block=32, outputs=(0,), launches=launches
    )
    assert emulation.ok and (emulation.arrays[0] == 2 * x).all(), emulation.reason
    ticket = """
    extern "C" __global__ void kernel(float* o, unsigned* ticket) {
      if (threadIdx.x == 0 && atomicAdd(ticket, 1) == gridDim.x - 1) o[0] = 1.0f;
    }"""
    counted = "__device__ unsigned count = 0;" + ticket.replace("atomicAdd(ticket", "atomicAdd(&count")
    for source in (ticket, counted):
        arguments = np.empty(1, np.float32), np.zeros(1, np.uint32)
        emulation = autosched.emulate(source, arguments=arguments, grid=3, block=32, outputs=(0,), launches=launches)
        assert emulation.ok is (launches == 1)
        assert {str(f.kind) for f in emulation.findings} == (set() if launches == 1 else {"unwritten_output"})
        wraps = source.replace("atomicAdd", "atomicInc").replace(", 1)", ", gridDim.x - 1)")  # the count wraps to 0
        assert autosched.emulate(wraps, arguments=arguments, grid=3, block=32, outputs=(0,), launches=launches).ok


def test_a_second_launch_sees_state_of_the_first() -> None:
    source = """
    __device__ unsigned done = 0;
    extern "C" __global__ void kernel(int* o) {
      if (threadIdx.x == 0 && atomicAdd(&done, 1) == gridDim.x - 1) {
        o[0] += 1;
        RESET
      }
    }"""
    for reset, sums in (("done = 0;", 2), ("", 1)):
        text = source.replace("RESET", reset)
        launched = autosched.emulate(text, arguments=(np.zeros(1, np.int32),), grid=3, block=32, launches=2)
        assert launched.ok and launched.arrays[0] == [sums], launched.reason
