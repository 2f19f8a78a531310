// The end of a matmul: bias, activation, rounding, store. Sums of whole numbers become floats, unless out holds them.
#pragma once
#include <autosched/common/activation.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// What the end of a matmul computes in.
template <class C>
using Finished = conditional<is_same<typename C::Out, int>, int, float>;

// Bias and activation of Count neighbours of one row of out from column `col` on, inside the array as a whole. C is a
// matmul's Config.
template <class C, int Count>
__device__ __forceinline__ void finish_values(float* x, const typename C::Out* bias, int col) {
  using Out = typename C::Out;
  if constexpr (C::has_bias) {
    const auto added = ptx::ld_global_nc<Count * int(sizeof(Out))>(bias + col);
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += get_element<Out>(added, i);
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = activate<activation(C::activation)>(x[i]);
}

// Whole numbers stay what they are.
template <class C, int Count>
__device__ __forceinline__ void finish_values(int*, const typename C::Out*, int) {
  static_assert(!C::has_bias && activation(C::activation) == Activation::none, "out of i32 is the sum alone");
}

// The same of sums, and their store.
template <class C, int Count, class Sum>
__device__ __forceinline__ void finish(const Sum* sums, const typename C::Out* bias, typename C::Out* row, int col) {
  Finished<C> x[Count];
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = static_cast<Finished<C>>(sums[i]);
  finish_values<C, Count>(x, bias, col);
  ptx::st_global(row + col, pack<typename C::Out, Count>(x));
}

}  // namespace autosched
