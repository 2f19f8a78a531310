// The end of a matmul: bias, activation, rounding, store. Sums of whole numbers become floats, unless out holds them.
#pragma once
#include <autosched/common/activation.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

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

// The same, and their store.
template <class C, int Count>
__device__ __forceinline__ void finish(float* x, const typename C::Out* bias, typename C::Out* row, int col) {
  finish_values<C, Count>(x, bias, col);
  ptx::st_global(row + col, pack<typename C::Out, Count>(x));
}
template <class C, int Count>
__device__ __forceinline__ void finish(int* x, const typename C::Out* bias, typename C::Out* row, int col) {
  using Out = typename C::Out;
  if constexpr (is_same<Out, int>) {
    ptx::st_global(row + col, pack<Out, Count>(x));
  } else {
    float y[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) y[i] = static_cast<float>(x[i]);
    finish<C, Count>(y, bias, row, col);
  }
}

}  // namespace autosched
