"""Launch attributes for clusters, cooperation and programmatic dependence; generic addresses truncated to 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched
from measurements.emulator.findings import FindingKind

pytestmark = [needs_compiler, needs_nvrtc]

SM_90 = ("-arch=sm_90",)


def kinds(done: autosched.EmulatedLaunch) -> set[str]:
    return {str(f.kind) for f in done.faults}


def emulated(
    source: str, *arrays: np.ndarray, grid: int = 2, block: int = 64, **options: object
) -> autosched.EmulatedLaunch:
    return autosched.emulate(source, arrays, grid=grid, block=block, options=SM_90, **options)


# Clusters ------------------------------------------------------------------------------------------------------------

RANKS = """extern "C" __global__ void ranks(unsigned* out) {
  unsigned rank, blocks;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  out[blockIdx.x * blockDim.x + threadIdx.x] = 10 * blocks + rank;
}"""


def test_the_cluster_of_a_launch() -> None:
    out = np.zeros(8 * 32, np.uint32)
    emulation = emulated(RANKS, out, grid=8, block=32, cluster=4, outputs=(0,))
    assert emulation.ok, emulation.reason
    assert emulation.arrays[0][::32].tolist() == [40, 41, 42, 43] * 2
    assert emulated(RANKS, out, grid=8, block=32, outputs=(0,)).arrays[0][::32].tolist() == [10] * 8
    with pytest.raises(ValueError, match="multiple of the cluster"):
        emulated(RANKS, out, grid=8, block=32, cluster=3)


@needs_cuda_headers
def test_a_kernel_with_clusters_is_compiled_for_a_supporting_gpu() -> None:
    ranks = """
    #include <cooperative_groups.h>
    extern "C" __global__ void ranks(unsigned* out) {
      out[blockIdx.x] = cooperative_groups::this_cluster().block_rank();
    }
    """
    by_asm = """extern "C" __global__ void ranks(unsigned* out) {
      asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(out[blockIdx.x]));
    }"""
    for source in (ranks, by_asm):
        emulation = autosched.emulate(source, (np.zeros(4, np.uint32),), grid=4, block=1, cluster=2, outputs=(0,))
        assert emulation.ok, emulation.reason
        assert emulation.arrays[0].tolist() == [0, 1, 0, 1]


# Cooperation ---------------------------------------------------------------------------------------------------------

MEET = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void meet(int* a, int* o) {
  cg::grid_group grid = cg::this_grid();
  unsigned i = grid.thread_rank(), n = gridDim.x * blockDim.x;
  a[i] = i;
  grid.sync();
  o[i] = a[n - 1 - i];
}
"""


@needs_cuda_headers
def test_a_barrier_of_the_grid_needs_a_cooperative_launch() -> None:
    arrays = np.zeros(4 * 64, np.int32), np.zeros(4 * 64, np.int32)
    emulation = emulated(MEET, *arrays, grid=4, cooperative=True)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[1], np.arange(4 * 64)[::-1])
    emulation = emulated(MEET, *arrays, grid=4)
    assert kinds(emulation) == {"trap"} and "not cooperative" in emulation.reason


@needs_cuda_headers
def test_a_cooperative_grid_that_the_device_cannot_hold_is_rejected() -> None:
    blocks = 132 * 2048 // 1024
    arrays = np.zeros(4, np.int32), np.zeros(4, np.int32)
    with pytest.raises(ValueError, match=rf"{blocks + 1} blocks, but h200 .* {blocks} "):
        emulated(MEET, *arrays, grid=blocks + 1, block=1024, cooperative=True)
    with pytest.raises(ValueError, match="t4"):
        emulated(MEET, *arrays, grid=41, block=1024, cooperative=True, device="t4")


def test_attributes_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude"):
        emulated(RANKS, np.zeros(64, np.uint32), cooperative=True, dependent=True)
    with pytest.raises(ValueError, match="device"):
        emulated(RANKS, np.zeros(64, np.uint32), device="h100")


# Dependence ----------------------------------------------------------------------------------------------------------

CHAIN = """
__device__ void wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
extern "C" __global__ void chain(const int* x, const int* weight, int* out) {
  __shared__ int flag;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  BODY
}
"""
SOUND = {
    "wait_first": "wait(); launch(); out[i] = x[i] * weight[i];",
    "weights_before": "launch(); const int w = weight[i]; wait(); out[i] = x[i] * w;",
    "one_thread_waits": "launch(); if (threadIdx.x == 5) wait(); __syncthreads(); out[i] = x[i] * weight[i];",
    "one_warp_waits": """
      const int w = weight[i];
      if (threadIdx.x < 32) { wait(); asm volatile("bar.arrive 1, 64;" ::: "memory"); }
      else asm volatile("bar.sync 1, 64;" ::: "memory");
      out[i] = x[i] * w;""",
    "no_launch_of_dependents": "wait(); out[i] = x[i] * weight[i];",
}
FAULTY = {
    "no_wait": "launch(); out[i] = x[i] * weight[i];",
    "read_before": "const int v = x[i]; wait(); out[i] = v * weight[i];",
    "written_before": "out[i] = 0; wait(); out[i] += x[i] * weight[i];",
    "atomic_before": "atomicAdd(&out[i], 1); wait(); out[i] = x[i] * weight[i];",
    "one_thread_waits_alone": "if (threadIdx.x == 5) wait(); out[i] = x[i] * weight[i];",
    "other_warp_does_not_meet": "if (threadIdx.x < 32) wait(); __syncwarp(); out[i] = x[i] * weight[i];",
    "one_block_waits": "if (blockIdx.x == 0) wait(); __syncthreads(); out[i] = x[i] * weight[i];",
    "async_copy_before": """
      __shared__ int copied[64];
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                   :: "r"((unsigned)__cvta_generic_to_shared(copied + threadIdx.x)), "l"(x + i) : "memory");
      wait();
      asm volatile("cp.async.wait_all;" ::: "memory");
      out[i] = copied[threadIdx.x] * weight[i];""",
}


def chained(body: str, dependent: object) -> autosched.EmulatedLaunch:
    x, weight, out = np.arange(128, dtype=np.int32), np.full(128, 3, np.int32), np.zeros(128, np.int32)
    return emulated(CHAIN.replace("BODY", body), x, weight, out, dependent=dependent)


@pytest.mark.parametrize("body", SOUND.values(), ids=SOUND)
def test_chained_launches_wait_for_earlier_results(body: str) -> None:
    emulation = chained(body, (0, 2))
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[2], 3 * np.arange(128))


@pytest.mark.parametrize("body", FAULTY.values(), ids=FAULTY)
def test_launches_that_do_not_wait(body: str) -> None:
    emulation = chained(body, (0, 2))
    assert kinds(emulation) == {"global_race"} and "griddepcontrol" in emulation.reason
    assert chained(body, False).ok, "in an ordinary launch there is nothing to wait for"


def test_every_array_may_be_written_by_the_launch_before() -> None:
    assert kinds(chained(SOUND["weights_before"], True)) == {"global_race"}
    assert chained(SOUND["wait_first"], True).ok
    with pytest.raises(ValueError, match="argument 7"):
        chained(SOUND["wait_first"], (7,))


# Addresses -----------------------------------------------------------------------------------------------------------

CUT = """
extern "C" __global__ void cut(float* out) {
  __shared__ float s[64];
  float local[4] = {1, 2, 3, (float)threadIdx.x};
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  float v;
  ACCESS
  out[blockIdx.x * blockDim.x + threadIdx.x] = v + local[threadIdx.x % 4];
}
"""
LOAD = 'asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(a));'
LOAD_LOCAL = 'asm volatile("ld.local.f32 %0, [%1];" : "=f"(v) : "r"(a));'


@pytest.mark.parametrize(
    ("access", "kind"),
    [
        ("unsigned a = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]); " + LOAD, None),
        ("unsigned a = (unsigned)(size_t)&s[threadIdx.x]; " + LOAD, FindingKind.OUT_OF_BOUNDS_SHARED),
        ("unsigned a = (unsigned)(size_t)&local[1]; " + LOAD_LOCAL, FindingKind.OUT_OF_BOUNDS_LOCAL),
        ("float* p = (float*)(size_t)(unsigned)(size_t)&s[threadIdx.x]; v = *p;", FindingKind.OUT_OF_BOUNDS_GLOBAL),
        ("float* p = (float*)(size_t)(unsigned)(size_t)&out[0]; v = *p;", FindingKind.OUT_OF_BOUNDS_GLOBAL),
    ],
    ids=["converted", "shared", "local", "generic", "global"],
)
def test_generic_addresses_cut_to_32_bits(access: str, kind: FindingKind | None) -> None:
    emulation = emulated(CUT.replace("ACCESS", access), np.zeros(128, np.float32), outputs=(0,))
    assert kinds(emulation) == ({str(kind)} if kind else set()), emulation.reason


def test_a_cut_address_in_a_cluster() -> None:
    source = CUT.replace("ACCESS", "unsigned a = (unsigned)(size_t)&s[threadIdx.x]; " + LOAD)
    emulation = emulated(source, np.zeros(128, np.float32), outputs=(0,), cluster=2)
    assert kinds(emulation) == {"out_of_bounds_shared"}
