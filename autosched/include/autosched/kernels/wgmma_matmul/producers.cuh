// The copies of wgmma_matmul: tiles of A and B into a ring of stages. Either one thread issues TMA copies, or all
// threads of its warp or warpgroup copy.
#pragma once
#include <autosched/intrinsics/wgmma_copy.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched {

template <class Config>
struct WgmmaProducers : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::A, typename Plan::B, typename Plan::C, typename Plan::CopyA, typename Plan::CopyB,
      typename Plan::PipelineState, typename Plan::Work;
  using Plan::cluster, Plan::consumer_threads, Plan::for_each_work, Plan::lines_a, Plan::lines_b, Plan::rank_m,
      Plan::rank_n, Plan::tma_bytes, Plan::wait;

  static constexpr int most_lines = 256;  // maximum number of lines per TMA copy

  // Bit mask of the ranks of the blocks along n: every cluster_m-th bit, beginning with the first.
  static constexpr unsigned blocks_along_n = ((1u << cluster) - 1) / ((1u << C::cluster_m) - 1);

  // A single producer thread: fills each stage by TMA as soon as it is empty.
  __device__ static __forceinline__ void produce(const ptx::TensorMap& a, const ptx::TensorMap& b, const ByLaunch& chosen,
                                                 PipelineState stage) {
    for_each_work(chosen.order, [&](const Work& work, int, bool) {
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, stage.advance()) {
        wait(stage.empty(), stage.parity ^ 1u);  // in the first round all stages are empty
        load_stage(a, b, chosen, stage, work, (work.first + t) * C::tile_k);
      }
    });
    drain(stage);
  }

  // The code of all producer threads. An operand that TMA can copy is copied by one thread. An operand that TMA cannot
  // copy is divided among all threads, and each thread starts the copies of its part. A stage is signalled as full with
  // a delay of `behind` k-tiles, so that the copies of `behind` k-tiles are in flight. `behind` is the number of stages
  // that consumers do not use, not counting the stage that is being filled.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void produce_together(const FromA& a, const FromB& b, const ByLaunch& chosen,
                                                          PipelineState stage, int warp) {
    constexpr int behind = C::stages - 1 - C::in_flight;
    static_assert(behind >= 0, "rule stages: one stage must be free in addition to those that consumers use");
    constexpr bool shifts_differ = differ<CopyA, (C::access_a > 0)>() || differ<CopyB, (C::access_b > 0)>();
    const int thread = int(threadIdx.x) - consumer_threads;
    PipelineState arrived = stage;
    int on_their_way = 0;
    const auto publish_rest = [&](int matrix) {
      ptx::cp_async_wait_group<0>();
#pragma unroll 1
      for (; on_their_way > 0; --on_their_way) publish(arrived, matrix, thread);
    };
    for_each_work(chosen.order, [&](const Work& work, int, bool) {
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, stage.advance()) {
        wait(stage.empty(), stage.parity ^ 1u);
        const int k0 = (work.first + t) * C::tile_k;
        if constexpr (tma_bytes > 0) {
          if (warp == Plan::consumer_warps && ptx::elect()) load_stage(a, b, chosen, stage, work, k0);
        }
        if constexpr (C::access_a > 0) {
          CopyA(thread).begin(a, work.batch, stage.tile(), stage.ends(), A::major ? work.m0 : k0,
                              A::major ? k0 : work.m0);
        }
        if constexpr (C::access_b > 0) {
          CopyB(thread).begin(b, work.batch, stage.tile() + A::bytes, ends_of_b(stage), B::major ? work.n0 : k0,
                              B::major ? k0 : work.n0);
        }
        ptx::cp_async_commit_group();
        if (on_their_way < behind) {
          ++on_their_way;
        } else {
          ptx::cp_async_wait_group<behind>();
          publish(arrived, work.batch, thread);
        }
      }
      // the shifts depend on the matrix, so all stages of this matrix are published before the next matrix begins
      if constexpr (shifts_differ) publish_rest(work.batch);
    });
    if constexpr (!shifts_differ) publish_rest(0);
    drain(stage);
  }

  // For each stage, waits until all blocks of the cluster that read the stage have released it. Afterwards, no other
  // block arrives at a barrier of this block, so the block may exit. A cluster barrier would also work, but its release
  // is a GPU-wide fence (MEMBAR.ALL.GPU), which takes about a microsecond. For stages that were never used, the wait
  // returns immediately.
  __device__ static __forceinline__ void drain(PipelineState stage) {
    if constexpr (cluster > 1) {
#pragma unroll 1
      for (int i = 0; i < C::stages; ++i, stage.advance()) wait(stage.empty(), stage.parity ^ 1u);
    }
  }

  template <class Copy, bool Copied>
  __host__ __device__ static constexpr bool differ() {
    if constexpr (Copied) return C::batch > 1 && Copy::shifts_differ;
    return false;
  }
  __device__ static __forceinline__ unsigned ends_of_b(const PipelineState& stage) {
    if constexpr (C::access_a > 0) return stage.ends() + CopyA::ends_bytes;
    return stage.ends();
  }

  // Makes this thread's completed copies to a stage visible to wgmma, and signals that they are complete.
  __device__ static __forceinline__ void publish(PipelineState& arrived, int matrix, int thread) {
    if constexpr (0 < C::access_a && C::access_a < 4) {
      CopyA(thread).finish(matrix, arrived.tile(), arrived.ends());
    }
    if constexpr (0 < C::access_b && C::access_b < 4) {
      CopyB(thread).finish(matrix, arrived.tile() + A::bytes, ends_of_b(arrived));
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(arrived.full());
    arrived.advance();
  }

  // One thread: issues the TMA copies of a stage.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void load_stage(const FromA& a, const FromB& b, const ByLaunch& chosen,
                                                    const PipelineState& stage, const Work& work, int k0) {
    const auto to_a = static_cast<unsigned short>(blocks_along_n << rank_m());
    const auto to_b = static_cast<unsigned short>(((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m));
    ptx::mbarrier_arrive_expect_tx(stage.full(), tma_bytes);
    if constexpr (C::access_a == 0) {
      load<A, lines_a, (C::cluster_n > 1)>(a, stage.tile(), work.m0, k0, work.batch, stage.full(),
                                           chosen.evict_a, rank_n(), to_a);
    }
    if constexpr (C::access_b == 0) {
      load<B, lines_b, (C::cluster_m > 1)>(b, stage.tile() + A::bytes, work.n0, k0, work.batch, stage.full(),
                                           chosen.evict_b, rank_m(), to_b);
    }
  }

  // Copies part number `part` of a tile: `Lines` lines of each box. If these are too many lines for a TMA copy, they
  // are copied in two halves. Many boxes are copied in a loop that is not unrolled, because ptxas would need more than
  // 24 registers for their coordinates.
  template <class Operand, int Lines, bool Multicast>
  __device__ static __forceinline__ void load(const ptx::TensorMap& map, unsigned to, int mn0, int k0, int batch,
                                              unsigned barrier, ptx::Evict evict, int part, unsigned short blocks) {
    constexpr int halves = Lines > most_lines ? 2 : 1;
    const int line0 = Multicast ? part * Lines : 0;
    to += unsigned(line0 * Operand::line);
#pragma unroll(Operand::boxes * halves <= 4 ? Operand::boxes * halves : 1)
    for (int i = 0; i < Operand::boxes * halves; ++i) {
      const int box = i / halves, behind = i % halves * (Lines / halves), along = box * Operand::width;
      const unsigned at = to + unsigned(box * Operand::box_bytes + behind * Operand::line);
      const int x = (Operand::major ? mn0 : k0) + along, y = (Operand::major ? k0 : mn0) + line0 + behind;
      if constexpr (Multicast) {
        ptx::load_box_for(blocks, at, map, x, y, batch, barrier, evict);
      } else {
        ptx::load_box(at, map, x, y, batch, barrier, evict);
      }
    }
  }
};

}  // namespace autosched
