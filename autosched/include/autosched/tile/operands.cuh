// The operands of a tile program's products: where a window's tile lies in shared memory, and the fragments of a warp.
//
// C: the Config of the program. L: what is decided about one load: T, Layout, left (whether it is the a of its
// products), row_major, array_major and array_minor (the array as it lies in memory, contiguous along minor), copy_async,
// copy_columns, vector, copy_store, transposed (ldmatrix.trans), stage_bytes.
#pragma once
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/tile_copy.cuh>

namespace autosched::tile {

template <class C, class L>
struct Operand : L {
  using I = typename C::Intrinsic;
  using T = typename L::T;
  using Layout = typename L::Layout;
  static constexpr int rows = L::left ? C::tile_m : C::tile_k, columns = L::left ? C::tile_k : C::tile_n;
  using Copy = TileCopy<T, Layout, L::row_major ? rows : columns, L::row_major ? columns : rows, L::array_major,
                        L::array_minor, L::row_major, C::threads, L::copy_columns, L::vector, L::copy_store,
                        L::copy_async>;
  // Fragments of B that one ldmatrix fills.
  static constexpr int group = C::fragments_n % I::b_group == 0 ? I::b_group : 1;

  // Whether the place of a lane and the steps between fragments share no bit of the layout's period.
  __host__ __device__ static constexpr bool splits() {
    if constexpr (Layout::splits) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * (L::left ? C::sg_rows : C::sg_columns); ++i) {
        if constexpr (L::left) {
          places |= Layout::low_bits(i / 32 * C::sg_data_m + I::template a_row<Operand>(i % 32),
                                     I::template a_depth<Operand>(i % 32));
        } else {
          places |= Layout::low_bits(I::template b_depth<Operand, group>(i % 32),
                                     i / 32 * C::sg_data_n + I::template b_col<Operand, group>(i % 32));
        }
      }
      for (int depth = 0; depth < C::tile_k; depth += I::k) {
        if constexpr (L::left) {
          for (int i = 0; i < C::fragments_m; ++i) steps |= Layout::low_bits(i * I::m, depth);
        } else {
          for (int j = 0; j < C::fragments_n; j += group) steps |= Layout::low_bits(depth, j * I::n);
        }
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int row, int column, int rows_on, int columns_on) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(row, column, rows_on, columns_on);
  }
  __device__ static __forceinline__ void advance(Copy& copy) {
    if constexpr (L::left == L::row_major) {
      copy.advance_minor();
    } else {
      copy.advance_major();
    }
  }
};

// A warp's fragments for one step of the intrinsic along k.
template <class C, class Operand>
struct LeftFragments {
  using I = typename C::Intrinsic;
  typename I::FragmentA x[C::fragments_m];
  __device__ __forceinline__ void load(unsigned tile, int step, int warp_m, int lane) {
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
      I::template load_a<Operand>(x[i], tile, warp_m * C::sg_data_m, i * I::m, step * I::k, lane);
    }
  }
};
template <class C, class Operand>
struct RightFragments {
  using I = typename C::Intrinsic;
  typename I::FragmentB x[C::fragments_n];
  __device__ __forceinline__ void load(unsigned tile, int step, int warp_n, int lane) {
#pragma unroll
    for (int j = 0; j < C::fragments_n; j += Operand::group) {
      I::template load_b<Operand, Operand::group>(&x[j], tile, step * I::k, warp_n * C::sg_data_n, j * I::n, lane);
    }
  }
};

template <class C>
struct Accumulators {
  typename C::Intrinsic::FragmentC x[C::fragments_m][C::fragments_n] = {};
};

template <class C, class Left, class Right>
__device__ __forceinline__ void multiply(Accumulators<C>& acc, const Left& a, const Right& b) {
#pragma unroll
  for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
    for (int j = 0; j < C::fragments_n; ++j) {
      // The operand types only serve intrinsics of two different types.
      C::Intrinsic::template multiply<void, void>(acc.x[i][j], a.x[i], b.x[j]);
    }
  }
}

}  // namespace autosched::tile
