// The operands a and b of a matmul: how threads copy a tile to shared memory, and how fragments are read from the tile.
#pragma once
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/tile_copy.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/ptx/mma/wmma.cuh>

namespace autosched {

template <class C>
struct ReadA {
  using T = typename C::T;
  using Layout = typename C::LayoutA;
  static constexpr bool row_major = C::order_a == "row";
  static constexpr int stage_bytes = C::stage_bytes_a;
  static constexpr bool transposed = C::access_a == "trans";
  static constexpr ptx::Major order = C::access_a == "col" ? ptx::Major::col : ptx::Major::row;
  static constexpr unsigned leading_dimension = C::leading_dimension_a;
  static constexpr int vector = C::access_vector_a;

  __host__ __device__ static constexpr bool splits() {
    using I = typename C::Intrinsic;
    if constexpr (Layout::splits && C::intrinsic.starts_with("mma_")) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * C::subgroups_m; ++i) {
        const int row = i / 32 * C::sg_data_m + I::template a_row<ReadA>(i % 32);
        places |= Layout::low_bits(row, I::template a_depth<ReadA>(i % 32));
      }
      for (int i = 0; i < C::fragments_m; ++i) {
        const int rows = fragment_at(i, I::m, C::subgroups_m, C::sg_data_m);
        for (int depth = 0; depth < C::tile_k; depth += I::k) steps |= Layout::low_bits(rows, depth);
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int row, int depth, int rows, int depths) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(row, depth, rows, depths);
  }
};

template <class C>
struct OperandA : ReadA<C> {
  using typename ReadA<C>::T, typename ReadA<C>::Layout;
  using ReadA<C>::row_major;
  static constexpr bool copy_async = C::copy_a == "cp.async";
  using Copy = TileCopy<T, Layout, row_major ? C::tile_m : C::tile_k, row_major ? C::tile_k : C::tile_m,
                        row_major ? C::m : C::k, row_major ? C::k : C::m, row_major, C::threads, C::copy_columns_a,
                        C::vector_a, C::copy_store_a, copy_async>;
};

template <class C>
struct ReadB {
  using T = typename C::T;
  using Layout = typename C::LayoutB;
  static constexpr bool row_major = C::order_b == "row";
  static constexpr int stage_bytes = C::stage_bytes_b;
  static constexpr bool transposed = C::access_b == "trans";
  static constexpr ptx::Major order = C::access_b == "col" ? ptx::Major::col : ptx::Major::row;
  static constexpr unsigned leading_dimension = C::leading_dimension_b;
  static constexpr int vector = C::access_vector_b;
  // Number of fragments of B that one load fills.
  static constexpr int group = C::sg_data_n / C::Intrinsic::n % C::Intrinsic::b_group == 0 ? C::Intrinsic::b_group : 1;

  __host__ __device__ static constexpr bool splits() {
    using I = typename C::Intrinsic;
    if constexpr (Layout::splits && C::intrinsic.starts_with("mma_")) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * C::subgroups_n; ++i) {
        const int col = i / 32 * C::sg_data_n + I::template b_col<ReadB, group>(i % 32);
        places |= Layout::low_bits(I::template b_depth<ReadB, group>(i % 32), col);
      }
      for (int j = 0; j < C::fragments_n; j += group) {
        const int cols = fragment_at(j, I::n, C::subgroups_n, C::sg_data_n);
        for (int depth = 0; depth < C::tile_k; depth += I::k) steps |= Layout::low_bits(depth, cols);
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int depth, int col, int depths, int cols) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(depth, col, depths, cols);
  }
};

template <class C>
struct OperandB : ReadB<C> {
  using typename ReadB<C>::T, typename ReadB<C>::Layout;
  using ReadB<C>::row_major;
  static constexpr bool copy_async = C::copy_b == "cp.async";
  using Copy = TileCopy<T, Layout, row_major ? C::tile_k : C::tile_n, row_major ? C::tile_n : C::tile_k,
                        row_major ? C::k : C::n, row_major ? C::n : C::k, row_major, C::threads, C::copy_columns_b,
                        C::vector_b, C::copy_store_b, copy_async>;
};

}  // namespace autosched
