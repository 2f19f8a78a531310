// C = epilogue(A * B) on GPUs with tensor memory. The threads of a block have these roles, each with a file in the
// folder tcgen05_matmul:
// - producer: one thread issues TMA copies of tiles of A and B into a ring of stages.
// - multiplier: one thread multiplies the tiles with tcgen05 instructions, which write the sums to tensor memory.
// - epilogue: four warps read finished sums from tensor memory, 32 columns at a time, and store them.
// The file plan defines the rings and the work of a block. Each stage has an mbarrier for "full" and one for
// "multiplied"; each buffer of sums has one for "complete" and one for "read".
//
// A tile of 256 rows is computed by a pair of blocks. Each block has half of the rows of A and of C, and half of the
// columns of B. One thread of the first block multiplies for both blocks. A block may compute several tiles in
// sequence: tiles that are assigned to it at the start (with stream_k, parts of the last tiles), or the tiles of blocks
// that have not started (launch_control). `transposed`: A, B and C are the transposes of the problem's b, a and out.
// Then C is column-major in memory, and the bias has an element for each row of C.
//
// Config: the parameters and attributes of search_spaces/templates/tcgen05_matmul/space.py, and the problem: m, n, k,
// batch, order_a, order_b, scale, has_bias, activation, transposed, stream_k_blocks, several_tiles, hilbert, and the
// types T (of A and B), Sum and Out; for block-scaled types also scale_order and scales_of_step (0 for other types).
#pragma once
#include <autosched/kernels/tcgen05_matmul/epilogue.cuh>
#include <autosched/kernels/tcgen05_matmul/multiplier.cuh>
#include <autosched/kernels/tcgen05_matmul/plan.cuh>
#include <autosched/kernels/tcgen05_matmul/producer.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Matmul : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::C, typename Plan::End, typename Plan::Out;
  using Plan::pair, Plan::producing_warp, Plan::multiplying_warp;

  __device__ static __forceinline__ void run(const ptx::TensorMap& a, const ptx::TensorMap& b, const End& ends, Out* out,
                                             const ptx::TensorMap* out_map, float* partials, unsigned* counters,
                                             const ptx::TensorMap* scales_a, const ptx::TensorMap* scales_b,
                                             LaunchRaster order, ptx::Evict evict_a, ptx::Evict evict_b) {
    const unsigned shared = ptx::shared_memory();
    const int warp = Plan::warp();
    if (warp == producing_warp && ptx::elect()) {
      ptx::prefetch_map(a);
      ptx::prefetch_map(b);
      Plan::make_barriers(shared);
    }
    // Both blocks of a pair must have started, because both allocate tensor memory. The fence after the initialisation
    // has published the barriers.
    if constexpr (pair == 2) {
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
    if (warp == multiplying_warp) {
      ptx::tcgen05_alloc<pair>(shared + Plan::address_at, C::tensor_columns);
      ptx::tcgen05_relinquish_alloc_permit<pair>();
      ptx::tcgen05_fence_before_sync();
    }
    ptx::barrier_sync();
    ptx::tcgen05_fence_after_sync();
    const unsigned sums = ptx::ld_shared<4>(shared + Plan::address_at).word[0];
    if (warp == producing_warp) {
      if (ptx::elect()) Tcgen05Producer<Config>::produce(a, b, scales_a, scales_b, order, evict_a, evict_b, shared);
    } else if (warp == multiplying_warp) {
      if (Plan::rank() == 0 && ptx::elect()) Tcgen05Multiplier<Config>::multiply(shared, sums, order);
    } else {
      Tcgen05Epilogue<Config>::finish_tiles(ends, out, out_map, partials, counters, order, shared, sums, warp);
    }
    ptx::tcgen05_fence_before_sync();
    // After this synchronisation, no thread reads tensor memory, and no thread arrives at a barrier of the other block.
    if constexpr (pair == 2) {
      ptx::cluster_arrive();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
    if (warp == multiplying_warp) {
      ptx::tcgen05_fence_after_sync();
      ptx::tcgen05_dealloc<pair>(sums, C::tensor_columns);
    }
  }
};

template <class Config>
__device__ __forceinline__ void tcgen05_matmul(const ptx::TensorMap& a, const ptx::TensorMap& b, const float* scale_a,
                                               const float* scale_b, const typename Config::Out* bias,
                                               typename Config::Out* out, const ptx::TensorMap* out_map,
                                               float* partials, unsigned* counters,
                                               const ptx::TensorMap* block_scales_a,
                                               const ptx::TensorMap* block_scales_b, int raster,
                                               unsigned long long evict_a, unsigned long long evict_b) {
  Tcgen05Matmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, out_map, partials, counters, block_scales_a,
                             block_scales_b, LaunchRaster{raster}, ptx::Evict{evict_a}, ptx::Evict{evict_b});
}

}  // namespace autosched
