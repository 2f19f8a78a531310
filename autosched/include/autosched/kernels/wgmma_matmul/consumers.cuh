// The consumers of wgmma_matmul: main loop, exchange with other blocks, and store of each tile.
#pragma once
#include <autosched/kernels/wgmma_matmul/exchange.cuh>
#include <autosched/kernels/wgmma_matmul/main_loop.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/kernels/wgmma_matmul/stores.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched {

template <class Config>
struct WgmmaConsumers : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::Accumulators, typename Plan::C, typename Plan::End, typename Plan::Out, typename Plan::PipelineState,
      typename Plan::Work;
  using Plan::boxes_at, Plan::cluster, Plan::consumer_threads, Plan::flag_at, Plan::for_each_work, Plan::of_turns,
      Plan::peers;
  using MainLoop = WgmmaMainLoop<Config>;
  using Exchange = WgmmaExchange<Config>;
  using Stores = WgmmaStores<Config>;

  __device__ static __forceinline__ void consume(const End& ends, Out* out, const ptx::TensorMap* out_map,
                                                 float* partials, unsigned* counters, LaunchRaster order, PipelineState stage,
                                             int warp) {
    const int group = warp / 4;
    const int rows = C::ping_pong ? 0 : group;  // index of this consumer's share of the rows of a tile
    unsigned elsewhere = 0;
    if constexpr (cluster > 1) {
      const int i = int(threadIdx.x) % 32;
      elsewhere = ptx::address_in(stage.shared, MainLoop::peer(i < peers ? i : 0)) - stage.shared;
    }
    if constexpr (C::ping_pong) {
      if (group == 1) ptx::barrier_arrive(of_turns, consumer_threads);  // the other consumer goes first
    }
    for_each_work(order, [&](const Work& work, int turn, bool more) {
      if constexpr (C::ping_pong) {
        if (turn % 2 != group) return stage.skip(work.tiles);
        // The barrier waits until the other consumer has multiplied its stages. By then, each of the other consumer's
        // stages has been filled, so this consumer cannot mistake the phases of those stages for the phases of its own
        // stages.
        ptx::barrier_sync(of_turns + group, consumer_threads);
      }
      Accumulators acc;
      if constexpr (C::scale == "block") {
        MainLoop::scaled_loop(acc, stage, work, rows, elsewhere, more, ends);
      } else {
        MainLoop::main_loop(acc, stage, work.tiles, rows, elsewhere, more);
      }
      if constexpr (C::split_k > 1) {
        if (!Exchange::combine_splits(acc, stage.shared + flag_at, partials, counters + work.output_tile, work)) return;
      }
      if constexpr (C::stream_k) {
        const unsigned flags = stage.shared + flag_at;
        if (work.tiles < C::tiles_k && !Exchange::combine_two(acc, flags, partials, counters, work, rows)) return;
      }
      if constexpr (C::store_buffers > 0) {
        Stores::store_boxes(acc, ends, out_map, work, stage.shared + boxes_at, group, rows);
      } else {
        Stores::store(acc, ends, out, work, rows);
      }
    });
    if constexpr (C::store_buffers > 0) {
      // TMA must have read shared memory before the block exits.
      if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<0>();
    }
  }
};

}  // namespace autosched
