// The fragments that a warp loads from a stage of shared memory and multiplies.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/kernels/matmul/block_scales.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>

namespace autosched {

// The fragments of a warp for one step of the intrinsic along k. The types A and B define how the fragments are read
// from a tile (operands.cuh).
template <class C, class A, class B>
struct MatmulFragments {
  using I = typename C::Intrinsic;
  using Warp = WarpTile<C>;
  using Accumulators = typename Warp::Accumulators;
  using Words = typename ScalesOf<C>::Words;

  typename I::FragmentA a[C::fragments_m];
  typename I::FragmentB b[C::fragments_n];

  __device__ __forceinline__ void load(unsigned tile, int step, int warp_m, int warp_n, int lane) {
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
      I::template load_a<A>(a[i], tile, warp_m * C::sg_data_m, Warp::fragment_row(i), step * I::k, lane);
    }
#pragma unroll
    for (int j = 0; j < C::fragments_n; j += B::group) {
      I::template load_b<B, B::group>(&b[j], tile + A::stage_bytes, step * I::k, warp_n * C::sg_data_n,
                                      Warp::fragment_col(j), lane);
    }
  }
  __device__ __forceinline__ void multiply(Accumulators& acc, const Words& scales, int step) const {
    if constexpr (scales_blocks<I>(0)) {
      multiply_from<0>(acc, scales, step);
    } else {
#pragma unroll
      for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
        for (int j = 0; j < C::fragments_n; ++j) I::template multiply<A, B>(acc[i][j], a[i], b[j]);
      }
    }
  }
  // A register has the scales of several fragments. The instruction selects the lanes with the scales of its fragment.
  template <int At>
  __device__ __forceinline__ void multiply_from(Accumulators& acc, const Words& scales, int step) const {
    constexpr int i = At / C::fragments_n, j = At % C::fragments_n;
    I::template multiply_scaled<i % 2, j % 4>(acc[i][j], a[i], b[j], scales.of_a(i, step), scales.of_b(j, step));
    if constexpr (At + 1 < C::fragments_m * C::fragments_n) multiply_from<At + 1>(acc, scales, step);
  }
};

}  // namespace autosched
