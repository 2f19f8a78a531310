// The end of a matmul: bias, activation, rounding, store.
#pragma once
#include <autosched/common/activation.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// Count neighbours of one row of out from column `col` on, inside the array as a whole. C is a matmul's Config.
template <class C, int Count>
__device__ __forceinline__ void finish(float* x, const typename C::Out* bias, typename C::Out* row, int col) {
  using Out = typename C::Out;
  if constexpr (C::has_bias) {
    const auto added = ptx::ld_global_nc<Count * int(sizeof(Out))>(bias + col);
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += get_element<Out>(added, i);
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = activate<activation(C::activation)>(x[i]);
  ptx::st_global(row + col, pack<Out, Count>(x));
}

}  // namespace autosched
