// A warp's part of a tile of C: fragments of the intrinsic, distributed round robin.
#pragma once
#include <autosched/common/numeric.cuh>

namespace autosched {

// Distance of a warp's fragment i from its first fragment. Fragments are distributed round robin over sg_layout,
// sg_data at a time.
__host__ __device__ constexpr int fragment_at(int i, int size, int sg_layout, int sg_data) {
  const int each = sg_data / size;
  return i / each * sg_layout * sg_data + i % each * size;
}

template <class C>
struct WarpTile {
  using I = typename C::Intrinsic;
  using Sum = typename C::Intrinsic::Sum;
  using Accumulators = typename I::FragmentC[C::fragments_m][C::fragments_n];

  // Positions of a warp's fragments of C, relative to the first fragment.
  __device__ static constexpr int fragment_row(int i) { return fragment_at(i, I::m, C::subgroups_m, C::sg_data_m); }
  __device__ static constexpr int fragment_col(int j) { return fragment_at(j, I::n, C::subgroups_n, C::sg_data_n); }
};

}  // namespace autosched
