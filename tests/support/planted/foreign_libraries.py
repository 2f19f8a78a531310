"""Faults planted in kernels that use CUDA C++ libraries: atomics with memory orders, pipelines, cooperative groups.

As in ``foreign_faults.py``, each kernel is correct and has no findings, and each of its faults must be detected.
"""

from __future__ import annotations

import numpy as np
from foreign_faults import ForeignKernel, _noise, _words, _zeros

from measurements.emulator import Order


def _kernel(name: str, source: str, *arguments: object, **more: object) -> ForeignKernel:
    bounds = more.get("block", 64)
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) kernel'
    return ForeignKernel(name, source.replace("HEAD", head), *arguments, **more)  # type: ignore[arg-type]


HANDED_OVER = _kernel(
    "a block hands data over by a flag",
    """
#include <cuda/atomic>
HEAD(const float* a, float* data, unsigned* flag, float* o) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> ready(*flag);
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 2 * a[t];
    __syncthreads();
    if (t == 0) ready.store(1, cuda::memory_order_release);
  } else {
    if (t == 0) while (ready.load(cuda::memory_order_acquire) == 0) {}
    __syncthreads();
    o[t] = data[63 - t] + 1;
  }
}""",
    lambda: (_noise(64), _zeros(64), _words(1), _zeros(64)),
    3,
    lambda a: 2 * a[0][::-1] + 1,
    grid=2,
    faults=(
        ("a relaxed store", "memory_order_release", "memory_order_relaxed"),
        ("a relaxed load", "memory_order_acquire", "memory_order_relaxed"),
        ("the scope of a block", "thread_scope_device", "thread_scope_block"),
        ("no barrier after the wait", "== 0) {}\n    __syncthreads();", "== 0) {}"),
        ("no barrier before the flag", "a[t];\n    __syncthreads();", "a[t];"),
        ("a plain store of the flag", "ready.store(1, cuda::memory_order_release)", "*flag = 1"),
        ("nobody waits", "while (ready.load(cuda::memory_order_acquire) == 0) {}", ";"),
        ("the flag before the data", "data[t] = 2 * a[t];\n    __syncthreads();\n    if (t == 0) ready.store(1, "
         "cuda::memory_order_release);", "if (t == 0) ready.store(1, cuda::memory_order_release);\n"
         "    __syncthreads();\n    data[t] = 2 * a[t];"),
    ),
)  # fmt: skip

LOCKED = _kernel(
    "a lock guards a sum",
    """
#include <cuda/atomic>
HEAD(const float* a, float* sum, unsigned* lock) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> held(*lock);
  for (int turn = 0; turn < 3; ++turn) {
    unsigned free = 0;
    while (!held.compare_exchange_weak(free, 1, cuda::memory_order_acquire)) free = 0;
    *sum += a[blockIdx.x];
    held.store(0, cuda::memory_order_release);
  }
}""",
    lambda: (_noise(4), _zeros(1), _words(1)),
    1,
    lambda a: 3 * np.asarray([a[0].sum()]),
    grid=4,
    block=1,
    fills=False,
    faults=(
        ("a relaxed release", "memory_order_release", "memory_order_relaxed"),
        ("a relaxed acquisition", "memory_order_acquire", "memory_order_relaxed"),
        ("no lock", "while (!held.compare_exchange_weak(free, 1, cuda::memory_order_acquire)) free = 0;", ""),
        ("the expected value is not reset", "memory_order_acquire)) free = 0;", "memory_order_acquire)) {}"),
        ("never released", "held.store(0, cuda::memory_order_release);", ""),
        ("released too early", "*sum += a[blockIdx.x];\n    held.store(0, cuda::memory_order_release);",
         "held.store(0, cuda::memory_order_release);\n    *sum += a[blockIdx.x];"),
    ),
)  # fmt: skip

EXTREME = _kernel(
    "the largest value by compare-and-swap",
    """
HEAD(const float* a, unsigned* most) {
  float x = a[blockIdx.x * 64 + threadIdx.x];
  unsigned old = *(volatile unsigned*)most;
  while (__uint_as_float(old) < x) {
    unsigned assumed = old;
    old = atomicCAS(most, assumed, __float_as_uint(x));
    if (old == assumed) break;
  }
}""",
    lambda: (np.sort(np.abs(_noise(256))).reshape(4, 64)[:, ::-1].copy(), _words(1)),
    1,
    lambda a: np.asarray([np.max(a[0])]).view(np.uint32),
    grid=4,
    fills=False,
    faults=(
        ("tried once", "if (old == assumed) break;", "break;"),
        ("a store for a swap", "old = atomicCAS(most, assumed, __float_as_uint(x));", "*most = __float_as_uint(x);"),
        ("what was there is dropped",
         "old = atomicCAS(most, assumed, __float_as_uint(x));\n    if (old == assumed) break;",
         "if (atomicCAS(most, assumed, __float_as_uint(x)) == assumed) break; else old = __float_as_uint(x);"),
        ("a plain read", "*(volatile unsigned*)most", "*most"),
        ("the other order", "__uint_as_float(old) < x", "__uint_as_float(old) > x"),
        ("an atomic of the block", "atomicCAS(", "atomicCAS_block("),
    ),
)  # fmt: skip

CLUSTER = _kernel(
    "blocks of a cluster read each other's memory",
    """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) kernel(const float* a, float* o) {
  __shared__ float s[64];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank(), t = threadIdx.x;
  s[t] = a[blockIdx.x * 64 + t];
  cluster.sync();
  float sum = 0;
  for (unsigned r = 0; r < 4; ++r) sum += (r + 1) * cluster.map_shared_rank(s, (rank + r) % 4)[63 - t];
  cluster.sync();
  o[blockIdx.x * 64 + t] = sum;
}""",
    lambda: (_noise(8, 64), _zeros(8, 64)),
    1,
    lambda a: np.stack(
        [sum((r + 1) * a[0][b // 4 * 4 + (b + r) % 4, ::-1] for r in range(4)) for b in range(8)],
    ),
    grid=8,
    faults=(
        ("its own rank", "(rank + r) % 4", "rank"),
        ("the wrong way round", "(rank + r) % 4", "(rank + 4 - r) % 4"),
        ("beyond the cluster", "(rank + r) % 4", "rank + r"),
        ("its own memory", "cluster.map_shared_rank(s, (rank + r) % 4)[63 - t]", "s[63 - t]"),
        ("the rank is computed from the block's index", "rank = cluster.block_rank()", "rank = blockIdx.x / 2"),
        ("no barrier before the reads", "t];\n  cluster.sync();", "t];\n  __syncthreads();"),
        ("a block leaves too early", "- t];\n  cluster.sync();", "- t];"),
    ),
    orders=(Order(), Order("random", 1), Order("descending", 3)),
)

ASYNC_PIPELINE = _kernel(
    "a pipeline of a block",
    """
#include <cuda/pipeline>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
HEAD(const float* a, float* o, int tiles) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0, ahead = 0; k < tiles; ++k) {
    for (; ahead < tiles && ahead < k + 2; ++ahead) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[ahead % 2][t], &a[ahead * 64 + t], sizeof(float), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += (k + 1) * s[k % 2][63 - t];
    pipe.consumer_release();
  }
  o[t] = sum;
}""",
    lambda: (_noise(5, 64), _zeros(64), np.int32(5)),
    1,
    lambda a: (a[0] * np.arange(1, 6)[:, None]).sum(0)[::-1],
    faults=(
        ("nobody waits", "pipe.consumer_wait();", ""),
        ("released before it is read", "sum += (k + 1) * s[k % 2][63 - t];\n    pipe.consumer_release();",
         "pipe.consumer_release();\n    sum += (k + 1) * s[k % 2][63 - t];"),
        ("never released", "    pipe.consumer_release();\n", ""),
        ("never acquired", "pipe.producer_acquire();", ""),
        ("never committed", "pipe.producer_commit();", ""),
        ("one buffer", "s[ahead % 2][t]", "s[0][t]"),
        ("a stage too far", "ahead < k + 2", "ahead < k + 3"),
    ),
    orders=(Order(), Order("random", 1), Order("descending", 3)),
)  # fmt: skip

HALVES = _kernel(
    "halves of a warp exchange",
    """
HEAD(const float* a, float* o) {
  __shared__ float s[64];
  unsigned t = threadIdx.x, first = t & ~15u, mask = 0xffffu << (t & 16);
  s[t] = a[t];
  __syncwarp(mask);
  float x = s[first + (t + 3) % 16] + s[first];
  __syncwarp(mask);
  s[t] = x;
  __syncwarp(mask);
  o[t] = s[first + (t + 1) % 16];
}""",
    lambda: (_noise(64), _zeros(64)),
    1,
    lambda a: np.concatenate([np.roll(np.roll(x, -3) + x[0], -1) for x in a[0].reshape(4, 16)]),
    faults=(
        ("the first read crosses into the other half", "s[first + (t + 3) % 16]", "s[(t & ~31u) + (t + 3) % 32]"),
        ("the other half's first", "+ s[first];", "+ s[first & ~31u];"),
        ("the last read crosses into the other half", "s[first + (t + 1) % 16]", "s[(t & ~31u) + (t + 1) % 32]"),
        ("a quarter of the warp", "mask = 0xffffu << (t & 16)", "mask = 0xffu << (t & 24)"),
        ("the other half's mask", "0xffffu << (t & 16)", "0xffffu << (~t & 16)"),
        ("no __syncwarp before the write", "+ s[first];\n  __syncwarp(mask);", "+ s[first];"),
    ),
)

TILES = _kernel(
    "tiles of cooperative groups",
    """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
HEAD(const float* a, float* o, unsigned* count, float* rows) {
  __shared__ float s[64];
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  unsigned t = threadIdx.x, l = tile.thread_rank();
  s[t] = a[blockIdx.x * 64 + t];
  tile.sync();
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += s[t - l + k] * (k + 1);
  tile.sync();
  if (l == 0) s[t] = sum;
  tile.sync();
  rows[blockIdx.x * 64 + t] = (s[t - l] + sum) / 2 + l;  // uses the sums of all lanes
  tile.sync();
  // The tile that finishes last adds the results of all tiles.
  unsigned before = 0;
  if (l == 0) { __threadfence(); before = atomicAdd(count, 1u); __threadfence(); }
  before = tile.shfl(before, 0);
  tile.sync();
  if (before != gridDim.x * 8 - 1) return;
  float all = 0;
  for (unsigned k = l; k < gridDim.x * 64; k += 8) all += rows[k];
  for (int d = 4; d > 0; d /= 2) all += tile.shfl_down(all, d);
  if (l == 0) *o = all;
}""",
    lambda: (_noise(192), _zeros(1), _words(1), _zeros(192)),
    1,
    lambda a: np.asarray([(8 * (a[0].reshape(24, 8) * np.arange(1, 9)).sum(1) + 28).sum()]),
    grid=3,
    faults=(
        ("a neighbour's tile", "s[t - l + k]", "s[(t - l + k + 1) % 64]"),
        ("no barrier of the tile", "+ t];\n  tile.sync();", "+ t];"),
        ("no barrier before the write", "(k + 1);\n  tile.sync();", "(k + 1);"),
        ("no barrier after the write", "= sum;\n  tile.sync();", "= sum;"),
        ("too few steps", "int d = 4;", "int d = 2;"),
        ("too many steps", "int d = 4;", "int d = 8;"),
        ("no barrier before the fence", "lanes\n  tile.sync();", "lanes"),
        ("no fence before the count", "{ __threadfence(); before", "{ before"),
        ("no fence after the count", "1u); __threadfence(); }", "1u); }"),
        ("no tile.sync() after the shuffle of the count", "0);\n  tile.sync();", "0);"),
    ),
)

WARP_SUM = _kernel(
    "a sum of warps",
    """
HEAD(const float* a, float* o, int n) {
  __shared__ float part[2];
  int t = threadIdx.x;
  float x = t < n ? a[t] : 0;
  if (n > 1000) printf("thread %d of %d: %f %s\\n", t, n, x, "is too many");
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(~0u, x, d);
  if (t % 32 == 0) part[t / 32] = x;
  __syncthreads();
  if (t < 32) {
    unsigned mask = __ballot_sync(~0u, t < 2);
    if (t < 2) {
      x = part[t];
      x += __shfl_xor_sync(mask, x, 1);
      if (t == 0) *o = x;
    }
  }
  __syncthreads();
}""",
    lambda: (_noise(50), _zeros(1), np.int32(50)),
    1,
    lambda a: np.asarray([a[0].sum()]),
    faults=(
        ("one step too few at the top", "int d = 16;", "int d = 8;"),
        ("one step too few at the bottom", "d > 0; d /= 2", "d > 1; d /= 2"),
        ("a wrong mask of the vote", "__ballot_sync(~0u, t < 2)", "__ballot_sync(~0u, t < 3)"),
        ("each lane votes alone", "__ballot_sync(~0u, t < 2)", "__ballot_sync(1u << t, t < 2)"),
        ("a lane that never comes", "if (t < 32) {", "if (t < 31) {"),
        ("half of the mask", "__shfl_down_sync(~0u", "__shfl_down_sync(0xffffu"),
        ("the wrong lane", "__shfl_xor_sync(mask, x, 1)", "__shfl_xor_sync(mask, x, 2)"),
        ("no guard", "t < n ? a[t] : 0", "a[t]"),
        ("the sum of the first warp", "t < 2);", "t < 1);"),
        ("no barrier", "= x;\n  __syncthreads();", "= x;"),
    ),
)  # fmt: skip


IN_TURNS = _kernel(
    "a stencil that reads what others write",
    """
HEAD(const float* __restrict__ a, float* __restrict__ o, int n) {
  __shared__ float s[66];
  int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x + 1;
  s[t] = a[i];
  if (t == 1) s[0] = a[(i + n - 1) % n];
  if (t == 64) s[65] = a[(i + 1) % n];
  __syncthreads();
  o[i] = (s[t - 1] + s[t] + s[t + 1]) / 3;
}""",
    lambda: (_noise(128), _zeros(128), np.int32(128)),
    1,
    lambda a: (np.roll(a[0], 1) + a[0] + np.roll(a[0], -1)) / 3,
    grid=2,
    faults=(
        ("reads the output instead of the input", "a[(i + 1) % n]", "o[(i + 1) % n]"),
        ("reads the output with ld.global.nc", "a[(i + n - 1) % n]", "__ldg(&o[(i + n - 1) % n])"),
        ("an edge is left out", "if (t == 1) s[0]", "if (t == 0) s[0]"),
        ("the edge of the array", "(i + n - 1) % n", "i - 1"),
        ("no barrier", "__syncthreads();", ""),
        ("an edge too far", "s[65] = ", "s[66] = "),
    ),
)

ALIASED = _kernel(
    "a row in place",
    """
HEAD(const float* a, float* o) {
  float x = a[threadIdx.x], y = a[63 - threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = x - y;
}""",
    lambda: (_noise(64), _zeros(64)),
    1,
    lambda a: np.asarray(a[0] - np.asarray(a[0])[::-1]),
    fills=False,
    aliases={1: 0},
    faults=(
        ("no barrier", "  __syncthreads();\n", ""),
        ("a promise that is not kept", "const float* a, float* o",
         "const float* __restrict__ a, float* __restrict__ o"),
        ("what is already written", "x - y;", "x - a[63 - threadIdx.x];"),
    ),
)  # fmt: skip

WIDE = _kernel(
    "indices beyond 32 bits",
    """
HEAD(const unsigned char* a, float* o, long long step, long long n) {
  long long at = (long long)(blockIdx.x * blockDim.x + threadIdx.x) * step;
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[at % n];
}""",
    lambda: (np.random.default_rng(1).integers(0, 255, 1009).astype(np.uint8), _zeros(128),
             np.int64(2**27 + 3), np.int64(1009)),
    1,
    lambda a: a[0][np.arange(128) * int(a[2]) % 1009].astype(np.float32),
    grid=2,
    faults=(
        ("32 bits", "long long at", "int at"),
        ("32 bits without a sign", "long long at", "unsigned at"),
        ("a product of 32 bits", "* step;", "* (int)step;\n  at = (int)at;"),
        ("a float", "long long at = (long long)(", "long long at = (float)("),
    ),
)  # fmt: skip

BOUNDS = _kernel(
    "threads of a block",
    """
HEAD(const float* a, float* o) { o[threadIdx.x] = a[threadIdx.x] + 1; }""",
    lambda: (_noise(64), _zeros(64)),
    1,
    lambda a: a[0] + 1,
    faults=(("more threads than the launch bounds allow", "__launch_bounds__(64)", "__launch_bounds__(32)"),),
)

LIBRARY_KERNELS = (
    HANDED_OVER,
    LOCKED,
    EXTREME,
    CLUSTER,
    ASYNC_PIPELINE,
    HALVES,
    TILES,
    WARP_SUM,
    IN_TURNS,
    ALIASED,
    WIDE,
    BOUNDS,
)
