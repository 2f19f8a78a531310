// C = epilogue(A * B) on Hopper. A producer warp issues TMA copies of tiles of A and B into a ring of stages, and
// `consumer_warpgroups` warpgroups multiply the tiles with wgmma instructions. The producer is a single warp, or a warp
// of a warpgroup that releases registers. Each stage has a "full" mbarrier, and an "empty" one at which every consumer
// arrives.
//
// The folder wgmma_matmul has these files:
// - plan: the ring, and the work of a block
// - producers: the copies
// - consumers: a consumer's work for a tile
// - main_loop: a consumer's multiplications
// - exchange: the exchange of sums between blocks that share a tile
// - stores: the stores of results
// - walk: the enumeration of the parts of tiles that each block computes, for verification
//
// A block may compute several tiles of C in sequence without stopping the copies. Its consumers share the rows of each
// tile, or compute alternate tiles (ping_pong). With stream_k, the k-tiles of the last tiles are distributed evenly
// over all blocks, and each block starts with its share. The blocks of a cluster compute neighbouring tiles, and each
// multicasts a share of their common operands. `transposed`: A, B and C are the transposes of the problem's b, a and
// out. Then C is column-major in memory, and the bias has an element for each row of C.
//
// TMA cannot copy an operand whose lines are not a multiple of 16 bytes apart. All producer threads together copy such
// an operand (access_a, access_b: the alignment of lines in bytes, 0 for TMA). Each thread arrives at the stage's
// "full" mbarrier after the proxy fence that makes its writes visible to wgmma.
//
// Config: the parameters and attributes of search_spaces/templates/wgmma_matmul/space.py, and the problem: m, n, k,
// batch, order_a, order_b, scale, has_bias, activation, transposed, access_a, access_b, stream_k_blocks, several_tiles
// and hilbert, and the types T (of A and B), Sum (of a register of accumulators) and Out.
#pragma once
#include <autosched/kernels/wgmma_matmul/consumers.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/kernels/wgmma_matmul/producers.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/wgmma/setmaxnreg.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched {

template <class Config>
struct WgmmaMatmul : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::C, typename Plan::End, typename Plan::Out, typename Plan::PipelineState;
  using Plan::cluster, Plan::consumer_warps, Plan::full_arrivals, Plan::reallocates_registers, Plan::peers,
      Plan::sharing, Plan::threads_copy;
  using Producers = WgmmaProducers<Config>;

  // Synchronises the block, or the cluster if copies use barriers and shared memory of other blocks. The fence after
  // the initialisation of the barriers makes them visible to the other blocks.
  __device__ static __forceinline__ void sync() {
    if constexpr (cluster > 1) {
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
  }

  // `a` and `b`: tensor maps, or pointers to matrices that threads copy.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void run(const FromA& a, const FromB& b, const End& ends, Out* out,
                                             const ptx::TensorMap* out_map, float* partials, unsigned* counters,
                                             const ByLaunch& chosen) {
    const PipelineState first{ptx::shared_memory()};
    const int warp = Plan::warp();
    if (warp == 0 && ptx::elect()) {
      if constexpr (C::access_a == 0) ptx::prefetch_map(a);
      if constexpr (C::access_b == 0) ptx::prefetch_map(b);
      PipelineState stage = first;
#pragma unroll 1
      for (; stage.parity == 0; stage.advance()) {
        ptx::mbarrier_init(stage.full(), full_arrivals);
        ptx::mbarrier_init(stage.empty_before(), 4 * sharing * peers);
      }
      ptx::fence_mbarrier_init();
    }
    sync();
    if (warp >= consumer_warps) {
      if constexpr (reallocates_registers) ptx::setmaxnreg_dec<C::producer_registers>();
      if constexpr (threads_copy) {
        Producers::produce_together(a, b, chosen, first, warp);
      } else {
        if (warp == consumer_warps && ptx::elect()) Producers::produce(a, b, chosen, first);
      }
    } else {
      if constexpr (reallocates_registers) ptx::setmaxnreg_inc<C::consumer_registers>();
      WgmmaConsumers<Config>::consume(ends, out, out_map, partials, counters, chosen.order, first.for_descriptors(),
                                      warp);
    }
  }
};

template <class Config, class FromA, class FromB>
__device__ __forceinline__ void wgmma_matmul(const FromA& a, const FromB& b,
                                             const float* scale_a, const float* scale_b,
                                             const typename Config::Out* bias, typename Config::Out* out,
                                             const ptx::TensorMap* out_map, float* partials, unsigned* counters, int raster,
                                             unsigned long long evict_a, unsigned long long evict_b) {
  WgmmaMatmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, out_map, partials, counters,
                           {{raster}, ptx::Evict{evict_a}, ptx::Evict{evict_b}});
}

}  // namespace autosched
