// The multiplications of tcgen05_matmul, by one thread for its block or for a pair of blocks.
#pragma once
#include <autosched/kernels/tcgen05_matmul/plan.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Multiplier : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::A, typename Plan::B, typename Plan::C, typename Plan::Stages, typename Plan::Sums, typename Plan::T,
      typename Plan::Work;
  using Plan::pair;
  using Mma = ptx::Tcgen05Mma<tcgen05_kind<T, C::scales_of_step>, pair>;
  static constexpr int steps_of_tile = C::tile_k * int(sizeof(T)) / A::k_bytes;
  // Number of steps in the last k-tile. Steps beyond the end of k are skipped, because their scales may be NaN and
  // would turn products of zeros into NaN.
  static constexpr int last_steps = Plan::scales == 0 ? steps_of_tile
                                                      : (C::k - (C::tiles_k - 1) * C::tile_k) * int(sizeof(T)) / A::k_bytes;
  static constexpr unsigned instruction = tcgen05_instruction<T, C::tile_m, C::tile_n, A::major, B::major>;

  __device__ static __forceinline__ void multiply(unsigned shared, unsigned tensor, LaunchRaster order) {
    Stages stage{{shared}};
    Sums sums{shared};
    Plan::template for_each_work<Plan::Role::multiplies>(shared, order, [&](const Work& work) {
      if constexpr (!Plan::scaled_k_tiles) begin(sums);
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, stage.advance()) {
        if constexpr (Plan::scaled_k_tiles) begin(sums);
        const unsigned d = tensor + unsigned(sums.index * C::tile_n);
        Plan::wait(stage.full(), stage.parity);
        ptx::tcgen05_fence_after_sync();
        const unsigned long long a = tcgen05_matrix<A>(stage.tile()), b = tcgen05_matrix<B>(stage.tile() + A::bytes);
        const unsigned scales = tensor + unsigned(C::sum_buffers * C::tile_n + stage.index * Plan::scale_columns);
        if constexpr (Plan::scales > 0) copy_scales(scales, stage.tile() + Plan::scales_at);
#pragma unroll
        for (int step = 0; step < steps_of_tile; ++step) {
          if (last_steps < steps_of_tile && step >= last_steps && work.first + t + 1 == C::tiles_k) break;
          const bool add = step > 0 || (t > 0 && !Plan::scaled_k_tiles);
          const unsigned long long at_a = a + A::advance(step, 0), at_b = b + B::advance(step, 0);
          if constexpr (Plan::scales > 0) {
            // A word has four scales. The instruction descriptor selects the scales of this step.
            const unsigned of_a = scales + unsigned(step * Plan::scales / 4 * Plan::word_columns);
            const unsigned with = tcgen05_scaled_instruction<T, C::tile_m, C::tile_n, Plan::scales>(step * Plan::scales % 4);
            Mma::multiply(d, at_a, at_b, with, of_a, of_a + 4, add);
          } else {
            Mma::multiply(d, at_a, at_b, instruction, add);
          }
        }
        ptx::tcgen05_commit<pair>(stage.empty());
        if constexpr (Plan::scaled_k_tiles) end(sums);
      }
      if constexpr (!Plan::scaled_k_tiles) end(sums);
    });
  }

  // Waits until the previous contents of `sums` have been read.
  __device__ static __forceinline__ void begin(const Sums& sums) {
    Plan::wait(sums.empty(), sums.parity ^ 1u);
    ptx::tcgen05_fence_after_sync();
  }
  __device__ static __forceinline__ void end(Sums& sums) {
    ptx::tcgen05_commit<pair>(sums.full());
    sums.advance();
  }

  // Copies words of scales to columns of tensor memory: first the scales of a, then the scales of all columns of b.
  __device__ static __forceinline__ void copy_scales(unsigned columns, unsigned shared) {
#pragma unroll
    for (int word = 0; word < Plan::words; ++word, columns += Plan::word_columns) {
      ptx::tcgen05_copy_scales<pair>(columns, tcgen05_scales(shared + unsigned(word * 512)));
#pragma unroll
      for (int line = 0; line < Plan::lines_b; ++line) {
        const unsigned at = shared + unsigned(((1 + line) * Plan::words + word) * 512);
        ptx::tcgen05_copy_scales<pair>(columns + unsigned(4 * (1 + line)), tcgen05_scales(at));
      }
    }
  }
};

}  // namespace autosched
