// Exchange of sums between blocks of wgmma_matmul: for split-K, and for tiles that stream-K divides between two
// workers.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

template <class Config>
struct WgmmaExchange : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::Accumulators, typename Plan::C, typename Plan::Sum, typename Plan::Work;
  using Plan::cluster, Plan::consumer_threads, Plan::of_boxes, Plan::rank, Plan::sharing;

  // Adds the partial sums of all splits in the order of the splits, so that the result does not depend on which block
  // is last. Returns true in the last block of a tile, which must then finish the tile.
  __device__ static __forceinline__ bool combine_splits(Accumulators& acc, unsigned flag, float* partials,
                                                        unsigned* counter, const Work& work) {
    constexpr int sums = C::accumulators * consumer_threads;  // number of sums per split
    Sum* registers = &acc[0][0];
    float* mine = partials + static_cast<long long>(work.output_tile * C::split_k + work.split) * sums;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) {
      ptx::st_global(mine + r * consumer_threads + int(threadIdx.x), AlignedVector<4>{{round_to<Sum>(registers[r])}});
    }
    if (!is_last_block<C::split_k, consumer_threads>(counter, flag)) return false;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) registers[r] = Sum{};
    const float* from = partials + static_cast<long long>(work.output_tile) * C::split_k * sums + int(threadIdx.x);
#pragma unroll 1
    for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
      for (int r = 0; r < C::accumulators; ++r) {
        registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from + r * consumer_threads).word[0]);
      }
      from += sums;
    }
    return true;
  }

  // Adds the sums of two workers that share a tile. Each warpgroup adds the sums of its rows. Returns true if this
  // worker must finish the tile.
  __device__ static __forceinline__ bool combine_two(Accumulators& acc, unsigned flags, float* partials,
                                                     unsigned* counters, const Work& work, int rows) {
    const int group = int(threadIdx.x) / 128;
    const int slot = (work.cut * cluster + rank()) * sharing + rows;
    return add_other_part<C::accumulators, 128>(
        &acc[0][0], partials + static_cast<long long>(slot) * C::accumulators * 128, counters + 2 * slot,
        flags + unsigned(4 * group), int(threadIdx.x) % 128, of_boxes + group);
  }
};

}  // namespace autosched
