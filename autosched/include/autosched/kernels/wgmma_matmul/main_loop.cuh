// The multiplications of wgmma_matmul: a consumer's loop over the stages.
#pragma once
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/intrinsics/wgmma_fragment.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/warp/redux.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched {

template <class Config>
struct WgmmaMainLoop : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::A, typename Plan::Accumulators, typename Plan::B, typename Plan::C, typename Plan::End,
      typename Plan::PipelineState, typename Plan::T, typename Plan::Work;
  using Plan::a_in_registers, Plan::cluster, Plan::consumer_threads, Plan::fragments, Plan::of_turns, Plan::peers,
      Plan::rank_m, Plan::rank_n, Plan::wait_together;
  using Multiply = ptx::Wgmma<T, C::tile_n, (Plan::paired > 1)>;
  static constexpr int steps_of_tile = C::tile_k * int(sizeof(T)) / A::k_bytes;

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, const PipelineState& stage, int group, bool first) {
    const unsigned start = uniform_start(stage);
    const unsigned long long b = B::base(start);
    if constexpr (a_in_registers) {
      multiply_registers(acc, stage.tile_at(start), b, group, first);
    } else {
      multiply_shared(acc, A::base(start + unsigned(A::advance(0, 64 * fragments) * group)), b, first);
    }
    ptx::wgmma_commit_group();
  }

  // Distance of B's tile from the start of the stage, which begins with A's tile.
  __host__ __device__ static constexpr int from_base_b(int step) { return A::bytes / 16 + B::from_base(step, 0); }

  __device__ static __forceinline__ void multiply_shared(Accumulators& acc, unsigned long long a, unsigned long long b,
                                                         bool first) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of_tile; ++step) {
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
        Multiply::template multiply<A::major, B::major>(acc[i], a + A::from_base(step, 64 * i), b + from_base_b(step),
                                                        step > 0 || !first);
      }
    }
  }

  // With A in registers: the fragments of a step are loaded while previous steps are multiplied.
  __device__ static __forceinline__ void multiply_registers(Accumulators& acc, unsigned tile, unsigned long long b,
                                                            int group, bool first) {
    const int row = group * fragments * 64 + int(threadIdx.x) / 32 % 4 * 16;
#pragma unroll
    for (int step = 0; step < steps_of_tile; ++step) {
      unsigned a[fragments][4];
#pragma unroll
      for (int i = 0; i < fragments; ++i) load_fragment<T, A>(a[i], tile, row + 64 * i, step);
      ptx::wgmma_fence();  // also orders the registers of A
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
        ptx::WgmmaOfRegisters<T, C::tile_n, (Plan::paired > 1)>::template multiply<B::major>(
            acc[i], a[i], b + from_base_b(step), step > 0 || !first);
      }
    }
  }

  // Rank of the block to which lane `i` of a warp signals that a stage has been read. The first lanes signal the blocks
  // along n, and the following lanes signal the other blocks along m. The code is free of branches, because ptxas would
  // assume divergence after a branch.
  __device__ static __forceinline__ int peer(int i) {
    // the cluster has one row or column: its blocks are all signalled, in the order of ranks
    if constexpr (C::cluster_m == 1 || C::cluster_n == 1) return i;
    const bool along_n = i < C::cluster_n;
    const int other = i - C::cluster_n, m = along_n ? rank_m() : other + (other < rank_m() ? 0 : 1);
    return m + (along_n ? i : rank_n()) * C::cluster_m;
  }

  // Signals that a warp has read a stage. The warp must have waited for its multiplications. In a cluster, every block
  // that copied to this stage must be signalled. Each of the first `peers` lanes signals one of these blocks.
  // `elsewhere` is the distance from this block's shared memory to that block's shared memory. With A in registers, the
  // loads of A by all lanes are also ordered before the arrival of one lane, and before TMA's next writes.
  __device__ static __forceinline__ void release(unsigned empty, unsigned elsewhere) {
    if constexpr (a_in_registers) {
      ptx::fence_async_proxy();
      ptx::warp_sync();
    }
    if constexpr (cluster == 1) {
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (threadIdx.x % 32 < peers) ptx::mbarrier_arrive_in_cluster(empty + elsewhere);
    }
  }

  // Returns the start of a stage in a uniform register. Ping-pong consumers skip the other consumer's iterations in a
  // branch. After this branch, ptxas no longer knows that the start is warp-uniform. redux moves it back to a uniform
  // register.
  __device__ static __forceinline__ unsigned uniform_start(const PipelineState& stage) {
    if constexpr (C::ping_pong) return ptx::redux_or(stage.start);
    return stage.start;
  }

  __device__ static __forceinline__ void main_loop(Accumulators& acc, PipelineState& stage, int tiles, int group,
                                                   unsigned elsewhere, bool more) {
    // The first k-tile is a separate iteration: it overwrites the sums, and there is no previous stage to release.
    const auto turn = [&](bool first) {
      wait_together(stage.full(), stage.parity);
      multiply_tile(acc, stage, group, first);
      ptx::wgmma_wait_group<C::in_flight>();
      if (C::in_flight > 0 && !first) release(stage.empty_before(), elsewhere);
      stage.advance();
      if (C::in_flight == 0) release(stage.empty_before(), elsewhere);
    };
    // The shuffle makes the iteration count warp-uniform. Otherwise, loop counters would not be in uniform registers.
    const int turns = int(ptx::shfl_idx(unsigned(tiles), 0));
    turn(true);
#pragma unroll 1
    for (int t = 1; t < turns; ++t) turn(false);
    if constexpr (C::ping_pong) {
      if (more) ptx::barrier_arrive(of_turns + (1 - int(threadIdx.x) / 128), consumer_threads);
    }
    if constexpr (C::in_flight > 0) {
      ptx::wgmma_wait_group<0>();
      release(stage.empty_before(), elsewhere);
    }
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r < Plan::registers_n; ++r) ptx::hold_register(acc[i][r]);
    }
  }

  // Like main_loop, but each k-tile has separate sums, which are scaled and then added to `sums`. Tensor cores would
  // accumulate 8-bit floats with too few bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
  __device__ static __forceinline__ void scaled_loop(Accumulators& sums, PipelineState& stage, const Work& work, int group,
                                                     unsigned elsewhere, bool more, const End& ends) {
    constexpr int block = 128, blocks_k = ceil_div(C::k, block), blocks_n = ceil_div(C::n, block);
    constexpr int across = ceil_div(C::tile_n, block);
    static_assert(C::tile_k == block && C::in_flight == 0 && (C::tile_n % block == 0 || block % C::tile_n == 0),
                  "block scales must cover a k-tile and whole groups of columns");
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32;
    const int row0 = work.m0 + group * fragments * 64 + warp * 16 + lane / 4;
    const float* of_a = ends.scale_a + static_cast<long long>(work.batch) * C::m * blocks_k + work.first;
    const float* of_b = ends.scale_b + static_cast<long long>(work.batch) * blocks_n * blocks_k + work.first;
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r < C::tile_n / 2; ++r) sums[i][r] = 0;
    }
#pragma unroll 1
    for (int t = 0; t < work.tiles; ++t) {
      float a[fragments][2], b[across];  // elements outside of C, which are not stored, use the last scale of C
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = row0 + i * 64 + half * 8;
          a[i][half] = End::number(of_a + static_cast<long long>(row < C::m ? row : C::m - 1) * blocks_k + t);
        }
      }
#pragma unroll
      for (int q = 0; q < across; ++q) {
        const int column = work.n0 / block + q;
        b[q] = End::number(of_b + (column < blocks_n ? column : blocks_n - 1) * blocks_k + t);
      }
      wait_together(stage.full(), stage.parity);
      Accumulators acc;
      multiply_tile(acc, stage, group, true);
      ptx::wgmma_wait_group<0>();
      stage.advance();
      release(stage.empty_before(), elsewhere);
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
#pragma unroll
        for (int r = 0; r < C::tile_n / 2; ++r) {
          ptx::hold_register(acc[i][r]);
          sums[i][r] += a[i][r / 2 % 2] * b[r / 4 * 8 / block] * acc[i][r];
        }
      }
    }
    if constexpr (C::ping_pong) {
      if (more) ptx::barrier_arrive(of_turns + (1 - int(threadIdx.x) / 128), consumer_threads);
    }
  }
};

}  // namespace autosched
