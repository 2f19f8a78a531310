"""Shared memory used by threads and then rewritten by the async proxy.

Each thread needs a fence.proxy.async between its access and the rewrite.
"""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import HEAD, kinds
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, FindingKind, emulate
from measurements.emulator.order import Order
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

pytestmark = [needs_compiler, needs_nvrtc]
MISSING = {FindingKind.MISSING_PROXY_FENCE}
WORDS = 256

TOOLS = """
__device__ void arrive(u32 b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b) : "memory"); }
__device__ void load(u32 to, const u32* from, u32 b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
               ::"r"(to), "l"(from), "r"(b) : "memory");
}
__device__ u32 matrix(u32 row) {
  u32 a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row) : "memory");
  return a ^ b ^ c ^ d;
}
"""

# One pipeline stage, which a thread of the second warp fills twice and the first warp uses.
RING = """
  __shared__ alignas(128) u32 tile[256]; __shared__ u64 full, empty;
  const u32 t = threadIdx.x;
  if (t == 0) { init(AT(full), 1); init(AT(empty), 1); fence(); }
  __syncthreads();
  if (t == 32) {
    for (u32 k = 0; k < 2; ++k) {
      wait(AT(empty), (k & 1) ^ 1);
      %(acquired)s
      expect(AT(full), 1024);
      load(AT(tile), x + 256 * k, AT(full));
    }
  } else if (t < 32) {
    for (u32 k = 0; k < 2; ++k) {
      wait(AT(full), k & 1);
      %(use)s
      __syncwarp();
      if (t == 0) arrive(AT(empty));
    }
  }
"""

# One pipeline stage that a single warp fills and uses in alternation.
TURNS = """
  __shared__ alignas(128) u32 tile[256]; __shared__ u64 full;
  const u32 t = threadIdx.x;
  if (t == 0) { init(AT(full), 1); fence(); }
  __syncthreads();
  for (u32 k = 0; k < 2; ++k) {
    if (t == 0) {
      %(acquired)s
      expect(AT(full), 1024);
      load(AT(tile), x + 256 * k, AT(full));
    }
    wait(AT(full), k & 1);
    if (t < 32) { %(use)s }
    __syncthreads();
  }
"""

USES = {
    "ld.shared": "out[32 * k + t] = tile[t];",
    "a volatile load": "out[32 * k + t] = *(volatile u32*)&tile[t];",
    "ldmatrix": "out[32 * k + t] = matrix(AT(tile[4 * t]));",
    "an atomic": "out[32 * k + t] = atomicAdd(&tile[t], 1);",
    "a store": "out[32 * k + t] = k; tile[t] = t;",
}


def run(
    body: str,
    *arguments: Argument,
    parameters: str = "u32* out, const u32* x",
    seed: int = 0,
    cluster: int = 1,
    block: int = 64,
    arch: str = "sm_90a",
) -> Emulation:
    operands = arguments or (Operand("out", "output", U32, (64,)), Operand("x", "input", U32, (2 * WORDS,)))
    kernel = GeneratedKernel(
        entry="test",
        source=f"{HEAD}{TOOLS}\n"
        f'extern "C" __global__ void __cluster_dims__({cluster}, 1, 1) test({parameters}) {{{body}}}',
        arguments=operands,
        grid=(cluster, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
        arch=arch,
    )
    x = np.arange(2 * WORDS, dtype=np.uint32)
    return emulate(kernel, {"x": x}, order=Order("ascending", seed), time_limit=30)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("body", [RING, TURNS], ids=["mbarrier", "syncthreads"])
@pytest.mark.parametrize("seed", [0, 3])
def test_readers_fence_before_bytes_are_overwritten_by_a_copy(body: str, use: str, seed: int) -> None:
    used = USES[use]
    done = run(body % {"use": f"{used} fence();", "acquired": ""}, seed=seed)
    assert done.ok, done.reason
    done = run(body % {"use": used, "acquired": ""}, seed=seed)
    assert kinds(done) == MISSING
    assert "without fence.proxy.async" in done.reason
    done = run(body % {"use": f"fence(); {used}", "acquired": ""}, seed=seed)
    assert kinds(done) == MISSING
    done = run(body % {"use": f"{used} if (t == 7) fence();", "acquired": ""}, seed=seed)
    assert kinds(done) == MISSING
    # A thread's fence also covers other threads' accesses that are ordered before it, just as it does for copies out of
    # shared memory.
    done = run(body % {"use": used, "acquired": "fence();"}, seed=seed)
    assert done.ok, done.reason


@pytest.mark.parametrize(
    "fence",
    [
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cluster;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    ],
)
def test_fences_of_shared_memory(fence: str) -> None:
    done = run(RING % {"use": f'{USES["ldmatrix"]} asm volatile("{fence}" ::: "memory");', "acquired": ""})
    assert done.ok, done.reason


def test_a_fence_of_global_memory_does_not_order_shared_memory() -> None:
    fence = 'asm volatile("fence.proxy.async.global;" ::: "memory");'
    assert kinds(run(RING % {"use": f"{USES['ldmatrix']} {fence}", "acquired": ""})) == MISSING


def test_the_line_that_used_the_bytes_is_named() -> None:
    body = RING % {"use": "\n#line 70\n" + USES["ldmatrix"] + "\n#line 30", "acquired": ""}
    (finding,) = run(body).findings
    assert "cp.async.bulk writes byte" in finding.message
    assert ", which " in finding.message
    assert " read at " in finding.message


def test_a_part_of_the_bytes() -> None:
    for last in ("t == 31 ? tile[255] : k", "t == 0 ? ((volatile unsigned char*)tile)[17] : k"):
        assert kinds(run(RING % {"use": f"out[32 * k + t] = {last};", "acquired": ""})) == MISSING


def test_a_later_fence_of_another_warp_orders_an_earlier_read() -> None:
    """After a barrier the second warp writes the stage and executes a fence, which also covers an earlier read."""
    use = """
      out[32 * k + t] = tile[t];
    }
    __syncthreads();
    if (t >= 32) {
      tile[t - 32] = 0;
      fence();
    """
    done = run(TURNS % {"use": use, "acquired": ""})
    assert done.ok, done.reason
    assert kinds(run(TURNS % {"use": use.replace("fence();", ""), "acquired": ""})) == MISSING


STORED = """
      if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;"
                     ::"l"(out + 32 * k), "r"(AT(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group.read 0;" ::: "memory");
      }
"""


def test_bulk_stores_read_through_the_async_proxy() -> None:
    for body in (RING, TURNS):
        done = run(body % {"use": STORED, "acquired": ""})
        assert done.ok, done.reason


BOTH_BLOCKS = """
  __shared__ alignas(1024) u32 tile[256]; __shared__ u64 full;
  u32 rank, t = threadIdx.x;
  asm("mov.u32 %%0, %%%%cluster_ctarank;" : "=r"(rank));
  if (t == 0) { init(AT(full), 1); fence(); }
  for (u32 k = 0; k < 2; ++k) {
    if (t == 0) expect(AT(full), 1024);
    sync_cluster();
    if (rank == 0 && t == 0) {
      asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                   ".multicast::cluster [%%0], [%%1, {%%2}], [%%3], 3;"
                   ::"r"(AT(tile)), "l"(&map), "r"(256 * k), "r"(AT(full)) : "memory");
    }
    wait(AT(full), k);
    out[128 * k + 64 * rank + t] = tile[t];
    %s
  }
  sync_cluster();
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_copies_to_another_block(seed: int) -> None:
    map_ = TensorMap.dense("map", Operand("x", "input", U32, (2 * WORDS,)), (WORDS,))
    arguments = (map_, Operand("out", "output", U32, (256,)))
    of_map = "const __grid_constant__ Map map, u32* out"

    def both(fence: str) -> Emulation:
        return run(BOTH_BLOCKS % fence, *arguments, parameters=of_map, seed=seed, cluster=2)

    done = both("fence();")
    assert done.ok, done.reason
    for rank in (0, 1):
        done = both(f"if (rank == {rank}) fence();")
        assert kinds(done) == MISSING
        assert f"of block {1 - rank} of the cluster" in done.reason


# Block 0 copies its tile to block 1, and then fills its tile again.
ACROSS = """
  __shared__ alignas(128) u32 tile[256]; __shared__ alignas(128) u32 other[256]; __shared__ u64 full, come;
  u32 rank, t = threadIdx.x;
  asm("mov.u32 %%0, %%%%cluster_ctarank;" : "=r"(rank));
  if (t == 0) { init(AT(full), 1); init(AT(come), 1); fence(); if (rank == 1) expect(AT(come), 1024); }
  sync_cluster();
  if (rank == 0) {
    if (t == 0) { expect(AT(full), 1024); load(AT(tile), x, AT(full)); }
    wait(AT(full), 0);
    %(between)s
    if (t == 0) {
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%%0], [%%1], 1024, [%%2];"
                   ::"r"(in_block(AT(other), 1)), "r"(AT(tile)), "r"(in_block(AT(come), 1)) : "memory");
    }
  } else {
    wait(AT(come), 0);
    out[t] = other[t];
  }
  %(synchronization)s
  if (rank == 0) {
    if (t == 0) { expect(AT(full), 1024); load(AT(tile), x, AT(full)); }
    wait(AT(full), 1);
  }
  sync_cluster();
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_copies_between_blocks_read_through_the_async_proxy(seed: int) -> None:
    def across(between: str = "", synchronization: str = "sync_cluster();") -> Emulation:
        return run(ACROSS % {"between": between, "synchronization": synchronization}, seed=seed, cluster=2)

    done = across()
    assert done.ok, done.reason
    assert kinds(across("tile[t] = t; __syncthreads();")) == MISSING
    done = across("tile[t] = t; fence(); __syncthreads();")
    assert done.ok, done.reason
    assert kinds(across(synchronization="__syncthreads();")) == {FindingKind.ASYNC_READ_BEFORE_WAIT}


# st.async belongs to the generic proxy, like loads and stores.
REGISTERS = """
  __shared__ alignas(16) u32 tile[64]; __shared__ u64 full;
  u32 t = threadIdx.x;
  tile[t] = t;
  if (t == 0) { init(AT(full), 1); fence(); expect(AT(full), 4); }
  __syncthreads();
  out[t] = tile[t];
  __syncthreads();
  if (t == 0) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], 7, [%1];"
                 ::"r"(AT(tile)), "r"(AT(full)) : "memory");
  }
  wait(AT(full), 0);
"""


def test_stores_of_registers_need_no_fence() -> None:
    done = run(REGISTERS)
    assert done.ok, done.reason


# tcgen05.alloc stores the address of tensor memory in a stage. All threads read it, and then the stage is overwritten.
ADDRESS = """
  __shared__ alignas(128) u32 tile[256]; __shared__ u64 full;
  const u32 t = threadIdx.x;
  if (t == 0) { init(AT(full), 1); fence(); }
  if (t < 32) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%0], 32;" ::"r"(AT(tile)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  __syncthreads();
  const u32 d = *(volatile u32*)tile;
  %(read)s
  __syncthreads();
  if (t == 0) { expect(AT(full), 1024); load(AT(tile), x, AT(full)); }
  wait(AT(full), 0);
  out[t] = tile[t];
  if (t < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%0, 32;" ::"r"(d));
"""


def test_the_address_of_tensor_memory() -> None:
    done = run(ADDRESS % {"read": "fence();"}, arch="sm_100a")
    assert done.ok, done.reason
    done = run(ADDRESS % {"read": ""}, arch="sm_100a")
    assert kinds(done) == MISSING
    assert "read at kernel.cu" in done.reason or "wrote at kernel.cu" in done.reason
