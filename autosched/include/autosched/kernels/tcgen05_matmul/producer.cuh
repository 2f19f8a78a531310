// The copies of tcgen05_matmul: one thread issues TMA copies to every stage as soon as it is empty.
#pragma once
#include <autosched/kernels/tcgen05_matmul/plan.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/tensor_map/pair.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Producer : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::A, typename Plan::B, typename Plan::C, typename Plan::Stages, typename Plan::Work;
  using Plan::pair;

  // The four scales of 128 lines take 512 bytes: two rows of 256 bytes of a tensor map. Tensor maps of scales have
  // three dimensions: the 256 bytes of a row, the rows of all words along k, and groups of 128 lines.
  __device__ static __forceinline__ void produce(const ptx::TensorMap& a, const ptx::TensorMap& b,
                                                 const ptx::TensorMap* scales_a, const ptx::TensorMap* scales_b,
                                                 LaunchRaster order, ptx::Evict evict_a, ptx::Evict evict_b,
                                                 unsigned shared) {
    Stages stage{{shared}};
    Plan::template for_each_work<Plan::Role::copies>(shared, order, [&](const Work& work) {
      const int column = work.n0 + Plan::rank() * (C::tile_n / pair);
#pragma unroll 1
      for (int t = work.first; t < work.first + work.tiles; ++t, stage.advance()) {
        Plan::wait(stage.empty(), stage.parity ^ 1u);  // in the first round all stages are empty
        const unsigned full = Plan::in_first(stage.full());
        if (Plan::rank() == 0) ptx::mbarrier_arrive_expect_tx(stage.full(), pair * (Plan::scales_at + Plan::scale_bytes));
        load<A>(a, stage.tile(), work.m0, t * C::tile_k, work.batch, full, evict_a);
        load<B>(b, stage.tile() + A::bytes, column, t * C::tile_k, work.batch, full, evict_b);
        if constexpr (Plan::scales > 0) {
          const unsigned at = stage.tile() + Plan::scales_at;
          // Number of 128-line tiles of each matrix.
          constexpr int of_a = ceil_div(C::m, 128), of_b = ceil_div(C::n, 128);
          const int word = 2 * t * Plan::words;
          load_box(at, *scales_a, 0, word, work.batch * of_a + work.m0 / 128, full, evict_a);
          load_box(at + Plan::words * 512, *scales_b, 0, word, work.batch * of_b + work.n0 / 128, full, evict_b);
        }
      }
    });
  }

  template <class Operand>
  __device__ static __forceinline__ void load(const ptx::TensorMap& map, unsigned to, int mn0, int k0, int batch,
                                              unsigned barrier, ptx::Evict evict) {
#pragma unroll
    for (int box = 0; box < Operand::boxes; ++box) {
      const unsigned at = to + unsigned(box * Operand::box_bytes);
      const int along = box * Operand::width;
      const int x = (Operand::major ? mn0 : k0) + along, y = Operand::major ? k0 : mn0;
      load_box(at, map, x, y, batch, barrier, evict);
    }
  }
  __device__ static __forceinline__ void load_box(unsigned to, const ptx::TensorMap& map, int x, int y, int z,
                                                  unsigned barrier, ptx::Evict evict) {
    if constexpr (pair == 2) {
      ptx::load_box_of_pair(to, map, x, y, z, barrier, evict);
    } else {
      ptx::load_box(to, map, x, y, z, barrier, evict);
    }
  }
};

}  // namespace autosched
