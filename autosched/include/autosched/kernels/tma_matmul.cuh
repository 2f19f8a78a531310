// C = epilogue(A * B) by mma.sync. One block computes a tile of C, for one split of K. A producer warp issues TMA
// copies into a ring of stages, and the other warps multiply from these stages. Each stage has a "full" and an "empty"
// mbarrier, so that the multiplying warps do not wait for each other. With stream_k, a block computes several tiles,
// some of them only in part. The stages are filled with the next part while the current results are stored, so the
// results cannot share memory with the stages.
//
// Config: the parameters and attributes of search_spaces/templates/tma_matmul/space.py, and what its lowering.py adds:
//   problem    m, n, k, batch, order_a, order_b, scale, has_bias, activation, reduction (none),
//              and the types T (of A and B) and Out
//   Intrinsic  the instruction that multiplies fragments; with block scales also scale_order and scale_blocks (per line)
//   operands   LayoutA, LayoutB (BoxedLayout); with the suffixes _a and _b: access (rows or trans: how the intrinsic
//              reads the tile), access_vector (number of elements of an access), leading_dimension (0)
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/kernels/matmul/epilogue.cuh>
#include <autosched/kernels/matmul/fragments.cuh>
#include <autosched/kernels/matmul/operands.cuh>
#include <autosched/kernels/matmul/split_k.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/tile/box_ring.cuh>

namespace autosched {

template <class Config>
struct TmaMatmul {
  // The config with the number of threads that multiply. Code shared with `matmul` uses this number.
  struct C : Config {
    static constexpr int threads = Config::threads - 32, consumer_warps = threads / 32;
  };
  using I = typename C::Intrinsic;
  using T = typename C::T;
  using Out = typename C::Out;
  using A = ReadA<C>;
  using B = ReadB<C>;
  using BoxesA = WgmmaOperand<T, C::tile_m, C::tile_k, A::row_major, C::swizzle_a>;
  using BoxesB = WgmmaOperand<T, C::tile_n, C::tile_k, !B::row_major, C::swizzle_b>;
  using Fragments = MatmulFragments<C, A, B>;
  using Scales = ScalesOf<C>;
  using Words = typename Scales::Words;
  using Warp = WarpTile<C>;
  using Work = MatmulWork<C>;
  using Accumulators = typename Warp::Accumulators;
  using PipelineState = tile::PipelineState<C>;
  static constexpr int tile_steps = C::tile_k / I::k;
  static constexpr int barriers_at = C::shared_bytes - 16 * C::stages;
  static constexpr int results_at = C::stream_k ? C::stages * C::stage_bytes : 0;
  enum NamedBarrier { of_all = 0, of_multiplying = 1 };

  static_assert(C::tile_m % (C::subgroups_m * C::sg_data_m) == 0 && C::tile_n % (C::subgroups_n * C::sg_data_n) == 0,
                "rule wg_map: sg_layout x sg_data must divide the workgroup tile");
  static_assert(C::sg_data_m % I::m == 0 && C::sg_data_n % I::n == 0 && C::tile_k % I::k == 0,
                "rule fragments: sg_data and tile_k must be multiples of the intrinsic's shape");
  static_assert(C::threads == C::subgroups_m * C::subgroups_n * 32 && C::threads + 32 <= 1024,
                "rule threads: 32 threads per subgroup and for the producer warp, at most 1024 per block");
  static_assert(BoxesA::bytes == C::stage_bytes_a && BoxesB::bytes == C::stage_bytes_b,
                "rule layout: boxes must fill a stage without gaps");
  static constexpr int repeats = 8 * (C::swizzle_a > C::swizzle_b ? C::swizzle_a : C::swizzle_b);
  static_assert(BoxesA::bytes % repeats == 0 && BoxesB::bytes % repeats == 0,
                "rule layout: tiles must begin at a multiple of the swizzle's period");
  static_assert(BoxesA::lines <= 256 && BoxesB::lines <= 256, "rule layout: a box may have at most 256 lines");
  static_assert(C::fragment_buffers == 1 || tile_steps % 2 == 0,
                "rule fragment_steps: two buffers of fragments need an even number of steps");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and the splits must cover all k-tiles");
  static_assert(C::stages * C::stage_bytes <= barriers_at &&
                    results_at + (C::epilogue == "shared" ? C::epilogue_bytes : C::stream_k ? 16 : 0) <= barriers_at,
                "rule shared_memory: the stages, results and the barriers must fit into the block's shared memory");
  static_assert(!C::stream_k || C::split_k == 1, "rule stream_k_split: split k and stream-K exclude each other");
  static_assert(!C::stream_k || (C::blocks > C::launched_blocks && C::blocks % C::launched_blocks != 0),
                "rule stream_k_waves: stream-K needs a partial wave after full ones");
  static_assert(!C::stream_k || C::tiles_k > 1, "rule stream_k_tiles: stream-K needs k-tiles to distribute");
  static_assert(sizeof(Accumulators) == C::accumulators * sizeof(typename Warp::Sum),
                "rule accumulators: the fragments of a warp must cover its part of the tile");

  __device__ static __forceinline__ void run(const ptx::TensorMap& a, const ptx::TensorMap& b, const EpilogueArgs<C>& ends, Out* out,
                                             float* partials, unsigned* counters, LaunchRaster order,
                                             const unsigned char* block_scale_a, const unsigned char* block_scale_b) {
    const unsigned shared = ptx::shared_memory();
    if (threadIdx.x == 0) {
      tile::init_ring<C>(shared + unsigned(barriers_at));
      ptx::fence_mbarrier_init();  // makes the barriers visible to TMA
    }
    ptx::barrier_sync();
    PipelineState stage(shared, shared + unsigned(barriers_at));
    // A shuffle lets ptxas know that the value is warp-uniform.
    if (int(ptx::shfl_idx(threadIdx.x / 32, 0)) == C::consumer_warps) {
      if (ptx::elect()) Work::for_each(order, [&](const Work& work) { produce(a, b, work, stage); });
      return;
    }
    Work::for_each(order, [&](const Work& work) {
      Accumulators acc = {};
      if constexpr (scales_blocks<I>(0)) {
        multiply(acc, {block_scale_a, block_scale_b, work}, work, stage);
      } else {
        multiply(acc, Scales{}, work, stage);
      }
      constexpr int barrier = C::stream_k ? of_multiplying : of_all;
      if (has_all<C>(acc, work, shared + unsigned(results_at), partials, counters, barrier)) {
        MatmulEpilogue<C>::store(acc, shared + unsigned(results_at), ends.of_matrix(work.batch),
                                 out + static_cast<long long>(work.batch) * C::m * C::n, work.m0(), work.n0(),
                                 work.warp_m(), work.warp_n(), work.lane());
      }
    });
  }

  // The producer, one thread: fills each stage as soon as it is empty.
  __device__ static __forceinline__ void produce(const ptx::TensorMap& a, const ptx::TensorMap& b, const Work& work,
                                                 PipelineState& stage) {
#pragma unroll 1
    for (int t = 0; t < work.count; ++t, stage.advance()) {
      while (!ptx::mbarrier_try_wait(stage.empty(), stage.parity ^ 1u)) {  // in the first round all stages are empty
      }
      ptx::mbarrier_arrive_expect_tx(stage.full(), C::stage_bytes);
      const int k0 = (work.first + t) * C::tile_k;
      load<BoxesA>(a, stage.tile, work.m0(), k0, work.batch, stage.full());
      load<BoxesB>(b, stage.tile + unsigned(C::stage_bytes_a), work.n0(), k0, work.batch, stage.full());
    }
  }
  template <class Boxes>
  __device__ static __forceinline__ void load(const ptx::TensorMap& map, unsigned to, int mn0, int k0, int batch,
                                              unsigned full) {
    constexpr bool along_k = Boxes::major == 0;
#pragma unroll
    for (int i = 0; i < Boxes::boxes; ++i) {
      ptx::load_box(to + unsigned(i * Boxes::box_bytes), map, (along_k ? k0 : mn0) + i * Boxes::width, along_k ? mn0 : k0,
                    batch, full, ptx::Evict::normally);
    }
  }

  // The multiplying warps: multiply all k-tiles of a part.
  __device__ static __forceinline__ void multiply(Accumulators& acc, Scales scales, const Work& work, PipelineState& stage) {
    const int warp_m = work.warp_m(), warp_n = work.warp_n(), lane = work.lane();
    const auto release = [&] {
      ptx::fence_async_proxy();  // orders TMA's next writes after this lane's reads; the mbarrier does not order them
      ptx::warp_sync();  // all lanes have read
      if (lane == 0) ptx::mbarrier_arrive(stage.empty());
      stage.advance();
    };
    Words words = scales.take();
    if constexpr (C::fragment_buffers == 2) {
      // Fragments of the next step are loaded while this step is multiplied, also across stages.
      Fragments held[2];
      tile::wait_phase(stage.full(), stage.parity);
      held[0].load(stage.tile, 0, warp_m, warp_n, lane);
#pragma unroll 1
      for (int left = work.count; left > 0; --left) {
        const Words next = scales.take();
#pragma unroll
        for (int step = 0; step < tile_steps; ++step) {
          if (step + 1 < tile_steps) {
            held[(step + 1) % 2].load(stage.tile, step + 1, warp_m, warp_n, lane);
          } else {
            release();  // all fragments of this k-tile are in registers
            if (left > 1) {
              tile::wait_phase(stage.full(), stage.parity);
              held[0].load(stage.tile, 0, warp_m, warp_n, lane);
            }
          }
          held[step % 2].multiply(acc, words, step);
        }
        words = next;
      }
    } else {
#pragma unroll 1
      for (int left = work.count; left > 0; --left) {
        const Words next = scales.take();
        tile::wait_phase(stage.full(), stage.parity);
#pragma unroll
        for (int step = 0; step < tile_steps; ++step) {
          Fragments fragments;
          fragments.load(stage.tile, step, warp_m, warp_n, lane);
          if (step + 1 == tile_steps) release();
          fragments.multiply(acc, words, step);
        }
        words = next;
      }
    }
  }
};

template <class Config>
__device__ __forceinline__ void tma_matmul(const ptx::TensorMap& a, const ptx::TensorMap& b, const float* scale_a,
                                           const float* scale_b, const typename Config::Out* bias,
                                           typename Config::Out* out, float* partials, unsigned* counters, int raster,
                                           const unsigned char* block_scale_a = nullptr,
                                           const unsigned char* block_scale_b = nullptr) {
  TmaMatmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, partials, counters, LaunchRaster{raster}, block_scale_a,
                         block_scale_b);
}

}  // namespace autosched
