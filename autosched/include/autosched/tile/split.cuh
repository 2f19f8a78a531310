// Split-K: blocks share the iterations of a loop, and the last block to finish adds all sums. With stream-K two blocks
// share a tile, and the second one to finish adds the sums of the first.
#pragma once
#include <autosched/common/last_block.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/thread.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// Stores this thread's N registers of a part to `part`, in which a thread's registers are Threads apart.
template <int N, int Threads, class X>
__device__ __forceinline__ void put_part(float* part, const X* x, int thread) {
#pragma unroll
  for (int r = 0; r < N; ++r) ptx::st_global(part + r * Threads + thread, AlignedVector<4>{{bits(x[r])}});
}

// Loads this thread's N registers of a part.
template <int N, int Threads, class X>
__device__ __forceinline__ void get_part(X* x, const float* part, int thread) {
#pragma unroll
  for (int r = 0; r < N; ++r) x[r] = of_bits<X>(ptx::ld_global_cg<4>(part + r * Threads + thread).word[0]);
}

// Adds the sums of all parts, which are Apart words apart, in order, so that the result does not depend on which block
// is last.
template <int Parts, int N, int Threads, int Apart, class X>
__device__ __forceinline__ void add_parts(X* x, const float* part, int thread) {
  part += thread;
#pragma unroll
  for (int r = 0; r < N; ++r) x[r] = X(0);
#pragma unroll 1
  for (int p = 0; p < Parts; ++p, part += Apart) {
#pragma unroll
    for (int r = 0; r < N; ++r) x[r] = add(x[r], of_bits<X>(ptx::ld_global_cg<4>(part + r * Threads).word[0]));
  }
}

// Adds the sums of one part to those of this thread.
template <int N, int Threads, class X>
__device__ __forceinline__ void add_part(X* x, const float* part, int thread) {
#pragma unroll
  for (int r = 0; r < N; ++r) x[r] = add(x[r], of_bits<X>(ptx::ld_global_cg<4>(part + r * Threads + thread).word[0]));
}

}  // namespace autosched::tile
