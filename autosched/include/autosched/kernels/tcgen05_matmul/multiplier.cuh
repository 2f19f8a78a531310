// The multiplications of tcgen05_matmul: one thread, for its block or for a pair.
#pragma once
#include <autosched/kernels/tcgen05_matmul/plan.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Multiplier : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::A, typename Plan::B, typename Plan::C, typename Plan::Stages, typename Plan::Sums, typename Plan::T,
      typename Plan::Work;
  using Plan::pair;
  using Mma = ptx::Tcgen05Mma<Tcgen05Type<T>::kind, pair>;
  static constexpr int steps_of_tile = C::tile_k * int(sizeof(T)) / A::k_bytes;
  static constexpr unsigned instruction = tcgen05_instruction<T, C::tile_m, C::tile_n, A::major, B::major>;

  __device__ static __forceinline__ void multiply(unsigned shared, unsigned tensor) {
    Stages stage{{shared}};
    Sums sums{shared};
    Plan::for_each_work([&](const Work&) {
      const unsigned d = tensor + unsigned(sums.place * C::tile_n);
      Plan::wait(sums.empty(), sums.parity ^ 1u);  // what they held before has been read
      ptx::tcgen05_fence_after_sync();
#pragma unroll 1
      for (int t = 0; t < C::tiles_k; ++t, stage.advance()) {
        Plan::wait(stage.full(), stage.parity);
        ptx::tcgen05_fence_after_sync();
        const unsigned long long a = tcgen05_matrix<A>(stage.tile()), b = tcgen05_matrix<B>(stage.tile() + A::bytes);
#pragma unroll
        for (int step = 0; step < steps_of_tile; ++step) {
          Mma::multiply(d, a + A::advance(step, 0), b + B::advance(step, 0), instruction, step > 0 || t > 0);
        }
        ptx::tcgen05_commit<pair>(stage.empty());
      }
      ptx::tcgen05_commit<pair>(sums.full());
      sums.advance();
    });
  }
};

}  // namespace autosched
