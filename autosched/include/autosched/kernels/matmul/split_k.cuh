// Split-K and stream-K: exchange of sums between blocks that share the k of a tile.
#pragma once
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// Adds the partial sums of all splits in the order of the splits, so that the result does not depend on which block is
// last. Returns true in the last block of a tile, which must then finish the tile.
template <class C>
__device__ __forceinline__ bool combine_splits(typename WarpTile<C>::Accumulators& acc, unsigned shared,
                                               float* partials, unsigned* counter, int tile, int split) {
  using Sum = typename WarpTile<C>::Sum;
  Sum* acc_registers = &acc[0][0].x[0];
  float* mine = partials + static_cast<long long>(tile * C::split_k + split) * C::accumulators * C::threads;
#pragma unroll
  for (int r = 0; r < C::accumulators; ++r) {
    ptx::st_global(mine + r * C::threads + int(threadIdx.x), AlignedVector<4>{{round_to<Sum>(acc_registers[r])}});
  }
  if (!is_last_block<C::split_k>(counter, shared)) return false;
#pragma unroll
  for (int r = 0; r < C::accumulators; ++r) acc_registers[r] = Sum{};
  constexpr int sums = C::accumulators * C::threads;  // number of sums per split
  const float* from = partials + static_cast<long long>(tile) * C::split_k * sums + int(threadIdx.x);
#pragma unroll 1
  for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) {
      acc_registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from + r * C::threads).word[0]);
    }
    from += sums;  // constant increment, so that addresses remain immediates
  }
  return true;
}

// Exchanges sums with the blocks that share a tile. Returns true if this block then has the complete sums, and must
// finish the tile. `shared` is the address of 4 unused bytes of shared memory. With stream_k, `barrier` is a named
// barrier of the C::threads threads that multiply.
template <class C>
__device__ __forceinline__ bool has_all(typename WarpTile<C>::Accumulators& acc, const MatmulWork<C>& work,
                                        unsigned shared, float* partials, unsigned* counters, int barrier) {
  if constexpr (C::split_k > 1) {
    const int output_tile = (work.batch * C::tiles_m + work.tile.m) * C::tiles_n + work.tile.n;
    return combine_splits<C>(acc, shared, partials, counters + output_tile, output_tile, work.split);
  } else if constexpr (C::stream_k) {
    if (work.count < C::tiles_k) {
      const typename MatmulWork<C>::Deal::Part part{0, work.first, work.count};
      const int cut = part.cut(int(blockIdx.x));
      return add_other_part<C::accumulators, C::threads>(
          &acc[0][0].x[0], partials + static_cast<long long>(cut) * C::accumulators * C::threads, counters + 2 * cut,
          shared, work.thread, barrier);
    }
  }
  return true;
}

}  // namespace autosched
