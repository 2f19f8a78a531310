"""Faults planted in kernels of the kind users write.

Each kernel is correct and has no findings, and each of its faults must be detected. A fault is a replacement in the
source. It counts as detected if one of the orders of execution gives a finding or a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from measurements.emulator import Order

Arrays = tuple[npt.NDArray[np.generic] | np.generic, ...]
ORDERS = (Order(), Order("interleaved"), Order("random", 1), Order("interleaved", 2), Order("descending", 3))


@dataclass(frozen=True)
class ForeignKernel:
    """A kernel, its launch and its faults.

    ``arguments()`` returns new arguments for each launch. ``expected`` returns the correct contents of array ``output``
    after the launch.
    """

    name: str
    source: str
    arguments: Callable[[], Arrays]
    output: int
    expected: Callable[[Arrays], npt.NDArray[np.generic]]
    grid: int | tuple[int, int, int] = 1
    block: int | tuple[int, int, int] = 64
    shared_bytes: int = 0
    launches: int = 1
    fills: bool = True  # True if the kernel writes every element of the output
    # position of an argument -> position of another argument that is the same array
    aliases: dict[int, int] = field(default_factory=dict)
    faults: tuple[tuple[str, str, str], ...] = field(default=())  # (name, old text, new text)
    orders: tuple[Order, ...] = ORDERS

    def run(self, source: str, order: Order) -> tuple[EmulatedLaunch, bool]:
        """Emulate the kernel. Return the launch, and True if it has no findings and the result is correct."""
        arguments = self.arguments()
        done = autosched.emulate(
            source,
            kernel="kernel",
            arguments=arguments,
            grid=self.grid,
            block=self.block,
            shared_bytes=self.shared_bytes,
            outputs=(self.output,) if self.fills else (),
            aliases=self.aliases,
            order=order,
            launches=self.launches,
            time_limit=20,
        )
        if not done.ok:
            return done, False
        arrays = [k for k, a in enumerate(arguments) if isinstance(a, np.ndarray)]
        output = done.arrays[arrays.index(self.output)]
        return done, bool(np.allclose(output, self.expected(arguments), rtol=1e-4, atol=1e-4))

    def broken(self, fault: tuple[str, str, str]) -> str:
        _, old, new = fault
        if self.source.count(old) < 1:
            raise ValueError(f"{self.name}: {old!r} is not in the source")
        return self.source.replace(old, new, 1)


def _noise(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def _zeros(*shape: int) -> npt.NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def _words(*shape: int) -> npt.NDArray[np.uint32]:
    return np.zeros(shape, np.uint32)


HEAD = 'extern "C" __global__ void __launch_bounds__(256) kernel'

LAST_BLOCK = ForeignKernel(
    "the last block reduces",
    """
__device__ float block_sum(float x, float* s) {
  s[threadIdx.x] = x;
  __syncthreads();
  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  return s[0];
}
HEAD(const float* a, float* part, unsigned* count, float* o, int n) {
  __shared__ float s[64];
  __shared__ bool last;
  float x = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x += a[i];
  x = block_sum(x, s);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = x;
    __threadfence();
    last = atomicAdd(count, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  x = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) x += part[i];
  x = block_sum(x, s);
  if (threadIdx.x == 0) { *o = x; *count = 0; }
}""",
    lambda: (_noise(777), _zeros(5), _words(1), _zeros(1), np.int32(777)),
    3,
    lambda a: np.asarray([np.sum(a[0])]),
    grid=5,
    faults=(
        ("no fence before the ticket", "part[blockIdx.x] = x;\n    __threadfence();", "part[blockIdx.x] = x;"),
        ("no fence after the ticket", "gridDim.x - 1;\n    __threadfence();", "gridDim.x - 1;"),
        ("a fence of the block", "= x;\n    __threadfence();", "= x;\n    __threadfence_block();"),
        ("an atomic of the block", "atomicAdd(count", "atomicAdd_block(count"),
        ("the last but one", "gridDim.x - 1;", "gridDim.x - 2;"),
        ("the stride of the grid is too long", "i += gridDim.x * blockDim.x", "i += gridDim.x * blockDim.x + 1"),
        ("a loop that ends early", "i < n; i +=", "i < n - 1; i +="),
        ("no barrier before the sum", "= x;\n  __syncthreads();", "= x;"),
        ("no barrier between its steps", "    __syncthreads();\n  }", "    if (d > 32) __syncthreads();\n  }"),
        ("the ticket is not atomic", "atomicAdd(count, 1u)", "(*count)++"),
    ),
)

GRID_STRIDE = ForeignKernel(
    "a grid-stride loop over a pitched array",
    """
HEAD(const float* a, float* o, int rows, int cols, int pitch) {
  for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < (unsigned)(rows * cols); k += gridDim.x * blockDim.x) {
    int r = k / cols, c = k % cols;
    o[r * cols + c] = 2.0f * a[r * pitch + c];
  }
}""",
    lambda: (_noise(13, 40), _zeros(13, 37), np.int32(13), np.int32(37), np.int32(40)),
    1,
    lambda a: 2 * a[0][:, :37],
    grid=3,
    faults=(
        ("rows by the width", "a[r * pitch + c]", "a[r * cols + c]"),
        ("bytes for elements", "a[r * pitch + c]", "a[(r * pitch) / 4 + c]"),
        ("off by one", "k < (unsigned)(rows * cols)", "k <= (unsigned)(rows * cols)"),
        ("a stride of one block", "k += gridDim.x * blockDim.x", "k += blockDim.x"),
        ("the index assumes 32 threads", "blockIdx.x * blockDim.x + threadIdx.x;", "blockIdx.x * 32 + threadIdx.x;"),
        ("sixteen bits of index", "unsigned k = ", "unsigned char k = "),
    ),
)

VECTOR_TAIL = ForeignKernel(
    "vectors of four with a tail",
    """
HEAD(const float* a, float* o, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 4 <= n) {
    float4 v = *reinterpret_cast<const float4*>(a + i);
    v.x += 1; v.y += 1; v.z += 1; v.w += 1;
    *reinterpret_cast<float4*>(o + i) = v;
  } else {
    for (int k = i; k < n; ++k) o[k] = a[k] + 1;
  }
}""",
    lambda: (_noise(503), _zeros(503), np.int32(503)),
    1,
    lambda a: a[0] + 1,
    grid=2,
    faults=(
        ("the wrong element in the tail", "o[k] = a[k] + 1", "o[k] = a[k - 1] + 1"),
        ("a tail too long", "k < n; ++k", "k <= n; ++k"),
        ("a tail too short", "k < n; ++k", "k < n - 1; ++k"),
        ("no tail", "i + 4 <= n", "i < n"),
        ("vectors off their alignment", "a + i);", "a + i + 1);"),
        ("a wrong component", "v.z += 1;", "v.y += 1;"),
    ),
)

TWO_ARRAYS = ForeignKernel(
    "two arrays in dynamic shared memory",
    """
HEAD(const float* a, const int* which, float* o) {
  extern __shared__ char memory[];
  float* values = reinterpret_cast<float*>(memory);
  int* places = reinterpret_cast<int*>(memory + 64 * sizeof(float));
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  values[t] = a[i];
  places[t] = which[i];
  __syncthreads();
  o[i] = values[places[t]] + values[63 - t];
}""",
    lambda: (_noise(128), np.random.default_rng(3).permutation(64).astype(np.int32).repeat(2), _zeros(128)),
    2,
    lambda a: np.concatenate([x[p] + x[::-1] for x, p in zip(a[0].reshape(2, 64), a[1].reshape(2, 64), strict=True)]),
    grid=2,
    shared_bytes=512,
    faults=(
        ("they overlap", "64 * sizeof(float)", "64"),
        ("they overlap by one", "64 * sizeof(float)", "63 * sizeof(float)"),
        ("past the end", "64 * sizeof(float)", "65 * sizeof(float)"),
        ("both begin alike", "memory + 64 * sizeof(float)", "memory"),
        ("a barrier in a branch", "__syncthreads();", "if (t < 32) __syncthreads();"),
    ),
)

WARP_EXCHANGE = ForeignKernel(
    "lanes of a warp exchange values through shared memory",
    """
HEAD(const float* a, float* o) {
  __shared__ float s[64];
  int t = threadIdx.x, w = t & ~31;
  s[t] = a[t];
  __syncwarp();
  float x = s[w + (t + 1) % 32];
  __syncwarp();
  s[t] = x * 2;
  __syncwarp();
  o[t] = s[w + (t + 5) % 32];
}""",
    lambda: (_noise(64), _zeros(64)),
    1,
    lambda a: np.roll(a[0].reshape(2, 32) * 2, -6, axis=1).ravel(),
    faults=(
        ("no __syncwarp before the read", "s[t] = a[t];\n  __syncwarp();", "s[t] = a[t];"),
        ("no __syncwarp before the write", "% 32];\n  __syncwarp();", "% 32];"),
        ("across warps", "s[w + (t + 5) % 32]", "s[(t + 5) % 64]"),
        ("a shuffle is not a barrier", "s[t] = a[t];\n  __syncwarp();", "s[t] = a[t];\n  __shfl_sync(~0u, t, 0);"),
    ),
)

SCAN_OF_SURVIVORS = ForeignKernel(
    "lanes that take part",
    """
HEAD(const float* a, float* o, unsigned* count) {
  int t = threadIdx.x;
  unsigned keep = __ballot_sync(~0u, a[t] > 0);
  if (a[t] > 0) {
    unsigned before = __popc(keep & ((1u << t) - 1));
    float x = a[t];
    for (int d = 1; d < 32; d *= 2) x += __shfl_xor_sync(keep, x, 0);
    o[before] = a[t] + 0 * x;
    __syncwarp(keep);
    if (before == 0) *count = __popc(keep);
  }
  __syncthreads();
}""",
    lambda: (np.where(np.arange(32) % 3 == 0, -1, 1 + np.arange(32)).astype(np.float32), _zeros(32), _words(1)),
    1,
    lambda a: np.resize(np.append(a[0][a[0] > 0], np.zeros(11, np.float32)), 32),
    block=32,
    fills=False,
    faults=(
        ("all lanes in a branch", "__shfl_xor_sync(keep", "__shfl_xor_sync(~0u"),
        ("the mask contains a lane that is not in the branch", "__syncwarp(keep)", "__syncwarp(keep | 1)"),
        (
            "activemask before the branch",
            "unsigned keep = __ballot_sync(~0u, a[t] > 0);",
            "unsigned keep = __activemask();",
        ),
        ("the lane itself counts", "((1u << t) - 1)", "((2u << t) - 1)"),
        ("a vote of the branch", "__ballot_sync(~0u, a[t] > 0)", "__ballot_sync(0x0fffffffu, a[t] > 0)"),
    ),
)

PIPELINE = ForeignKernel(
    "copies of two stages ahead",
    """
#include <cuda_pipeline.h>
HEAD(const float4* a, float4* o, int tiles) {
  __shared__ float4 s[3][64];
  int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    __pipeline_memcpy_async(&s[k][t], &a[k * 64 + t], 16);
    __pipeline_commit();
  }
  float4 sum = {0, 0, 0, 0};
  for (int k = 0; k < tiles; ++k) {
    if (k + 2 < tiles) __pipeline_memcpy_async(&s[(k + 2) % 3][t], &a[(k + 2) * 64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(2);
    __syncthreads();
    float4 v = s[k % 3][63 - t];
    sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
    __syncthreads();
  }
  o[t] = sum;
}""",
    lambda: (_noise(7, 64, 4), _zeros(64, 4), np.int32(7)),
    1,
    lambda a: a[0].sum(0)[::-1],
    faults=(
        ("waits for one group too few", "__pipeline_wait_prior(2)", "__pipeline_wait_prior(3)"),
        ("no barrier after the wait", "(2);\n    __syncthreads();", "(2);"),
        ("no barrier before the stage is filled again", "sum.w += v.w;\n    __syncthreads();", "sum.w += v.w;"),
        (
            "a commit only where there is a copy",
            "16);\n    __pipeline_commit();\n    __",
            "16);\n    if (k + 2 < tiles) __pipeline_commit();\n    __",
        ),
        ("a ring of two", "s[(k + 2) % 3]", "s[(k + 2) % 2]"),
        ("twelve bytes", "&a[(k + 2) * 64 + t], 16", "&a[(k + 2) * 64 + t], 8"),
    ),
)

STACK = """
// A stack. `below` links each node to the node below it. `head` holds the top node and a counter of changes.
__device__ unsigned long long head;
HEAD(unsigned* below, unsigned* taken) {
  const unsigned long long step = 0x100000000ull;
  for (int turn = 0; turn < 3; ++turn) {
    // Pop two nodes, then push both again, the first node first.
    unsigned mine[2];
    for (int k = 0; k < 2; ++k) {
      unsigned long long old = *(volatile unsigned long long*)&head, next;
      for (;;) {
        unsigned top = (unsigned)old;
        next = (old & ~0xffffffffull) + step + *(volatile unsigned*)&below[top];
        unsigned long long now = atomicCAS(&head, old, next);
        if (now == old) break;
        old = now;
      }
      mine[k] = (unsigned)old;
      if (atomicAdd(&taken[mine[k]], 1u) != 0) atomicAdd(&taken[16], 1u);
    }
    for (int k = 0; k < 2; ++k) {
      atomicSub(&taken[mine[k]], 1u);
      unsigned long long old = *(volatile unsigned long long*)&head;
      for (;;) {
        *(volatile unsigned*)&below[mine[k]] = (unsigned)old;
        __threadfence();
        unsigned long long now = atomicCAS(&head, old, (old & ~0xffffffffull) + step + mine[k]);
        if (now == old) break;
        old = now;
      }
    }
  }
}"""
LOCK_FREE = ForeignKernel(
    "a lock-free stack",
    STACK,
    lambda: (np.minimum(np.arange(1, 18), 16).astype(np.uint32), _words(17)),
    1,
    lambda a: np.zeros(17),
    grid=4,
    block=1,
    fills=False,
    faults=(
        ("the head has no version counter", "step = 0x100000000ull", "step = 0"),
        ("the head is not compared", "now = atomicCAS(&head, old, next);", "now = old; head = next;"),
    ),
    orders=(Order(), *(Order("interleaved", seed) for seed in range(12))),
)

KERNELS = tuple(
    ForeignKernel(**{**k.__dict__, "source": k.source.replace("HEAD", HEAD)})
    for k in (LAST_BLOCK, GRID_STRIDE, VECTOR_TAIL, TWO_ARRAYS, WARP_EXCHANGE, SCAN_OF_SURVIVORS, PIPELINE, LOCK_FREE)
)
