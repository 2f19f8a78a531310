// Split-K: blocks share the iterations of a loop, and the last block to finish adds all sums. If two blocks share a
// tile, as with stream-K, the second block to finish may keep its sums in registers and read only the sums of the first
// block. A part is the sums of one block.
#pragma once
#include <autosched/common/last_block.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/thread.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// Stores this thread's N registers of a partial result to `part`. There, the registers of a thread are Threads words
// apart.
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

// Loads the part of the other block, if two blocks share a tile. `own` is the index of this block's part, which is in x
// before the call. Afterwards, x has part 0 and `other` has part 1, so that the result does not depend on which block
// loads.
template <int N, int Threads, class X>
__device__ __forceinline__ void get_other_part(X* x, X* other, const float* part, int own, int thread) {
#pragma unroll
  for (int r = 0; r < N; ++r) {
    const X loaded = of_bits<X>(ptx::ld_global_cg<4>(part + r * Threads + thread).word[0]);
    other[r] = own == 0 ? loaded : x[r];
    x[r] = own == 0 ? x[r] : loaded;
  }
}

// Adds the sums of all parts in order, so that the result does not depend on which block is last. The distance between
// two parts is `Apart` words.
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

// Adds the sums of one part to this thread's sums.
template <int N, int Threads, class X>
__device__ __forceinline__ void add_part(X* x, const float* part, int thread) {
#pragma unroll
  for (int r = 0; r < N; ++r) x[r] = add(x[r], of_bits<X>(ptx::ld_global_cg<4>(part + r * Threads + thread).word[0]));
}

}  // namespace autosched::tile
