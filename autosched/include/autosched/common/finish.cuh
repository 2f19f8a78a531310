// Epilogue of a matmul: scales, bias, activation, rounding, store. Integer sums are converted to floats, unless out is
// i32.
#pragma once
#include <autosched/common/activation.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// Type in which the epilogue of a matmul computes.
template <class C>
using Finished = conditional<is_same<typename C::Out, int>, int, float>;

// Arguments of a matmul's epilogue. Each pointer points to the value for the first row or column of out that the caller
// stores. Out has Rows x Columns elements.
template <class C, int Rows = C::m, int Columns = C::n>
struct EpilogueArgs {
  const typename C::Out* bias;
  // f32 scales of the sums: one for each matrix, or one per row of A and column of B. Block scales have already been
  // applied.
  const float *scale_a, *scale_b;

  __device__ static __forceinline__ float number(const float* at) { return ptx::float_of(ptx::ld_global_nc<4>(at).word[0]); }

  __device__ __forceinline__ EpilogueArgs at(int row, int col) const {
    constexpr bool of_lines = C::scale == "row_column";
    return {C::has_bias ? bias + col : bias, of_lines ? scale_a + row : scale_a, of_lines ? scale_b + col : scale_b};
  }
  __device__ __forceinline__ EpilogueArgs of_matrix(int batch) const {
    constexpr bool of_lines = C::scale == "row_column";
    return {bias, of_lines ? scale_a + static_cast<long long>(batch) * Rows : scale_a,
            of_lines ? scale_b + static_cast<long long>(batch) * Columns : scale_b};
  }

  // Scale of a row.
  __device__ __forceinline__ float of_row(int row) const {
    if constexpr (C::scale == "tensor") {
      return number(scale_a) * number(scale_b);
    } else if constexpr (C::scale == "row_column") {
      return number(scale_a + row);
    } else {
      return 1.0f;
    }
  }
};

// Applies scales, bias and activation to `x`, which contains Count adjacent elements of a row of out. The elements
// begin at column `col` and are inside the array. C: the matmul's Config. `of_row`: scale of the row.
template <class C, int Count, class End>
__device__ __forceinline__ void finish_values(float* x, const End& ends, float of_row, int col) {
  using Out = typename C::Out;
  if constexpr (C::scale == "tensor") {
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] *= of_row;
  } else if constexpr (C::scale == "row_column") {
    const auto of_columns = ptx::ld_global_nc<Count * 4>(ends.scale_b + col);
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] *= of_row * get_element<float>(of_columns, i);
  }
  if constexpr (C::has_bias) {
    const auto added = ptx::ld_global_nc<Count * int(sizeof(Out))>(ends.bias + col);
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += get_element<Out>(added, i);
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = activate<activation(C::activation)>(x[i]);
}
// Integers are stored unchanged.
template <class C, int Count, class End>
__device__ __forceinline__ void finish_values(int*, const End&, float, int) {
  static_assert(C::scale == "none" && !C::has_bias && activation(C::activation) == Activation::none,
                "out of i32 allows no scale, bias or activation");
}

// Finishes Count sums in `registers`, starting with number `first`, and stores the results.
template <class C, int Count, class Sum, class End>
__device__ __forceinline__ void finish(const Sum* registers, int first, const End& ends, float of_row,
                                       typename C::Out* row, int col) {
  Finished<C> x[Count];
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = static_cast<Finished<C>>(sum_at(registers, first + i));
  finish_values<C, Count>(x, ends, of_row, col);
  ptx::st_global(row + col, pack<typename C::Out, Count>(x));
}

}  // namespace autosched
