// Values in registers: element-wise functions, and pairs of neighbouring elements of a row to and from global memory.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched::tile {

// As numpy has them: NaN stays NaN.
__device__ __forceinline__ float maximum(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return a < b || a != a ? a : b; }

// x rounded to T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return Element<T>::of(round_to<T>(x));
}

// The element at `from`, or 0 where it is not inside.
template <class T>
__device__ __forceinline__ float load(const T* from, bool inside) {
  return inside ? get_element<T>(ptx::ld_global_nc<int(sizeof(T))>(from), 0) : 0.0f;
}

// Two elements side by side. Aligned: both are inside or neither, and they lie on a boundary of two.
template <class T, bool Aligned>
__device__ __forceinline__ void load_pair(float (&x)[2], const T* from, bool first, bool second) {
  if constexpr (Aligned) {
    x[0] = x[1] = 0.0f;
    if (first) {
      const auto packet = ptx::ld_global_nc<2 * int(sizeof(T))>(from);
      x[0] = get_element<T>(packet, 0);
      x[1] = get_element<T>(packet, 1);
    }
  } else {
    x[0] = load(from, first);
    x[1] = load(from + 1, second);
  }
}

template <class T, bool Aligned>
__device__ __forceinline__ void store_pair(T* to, const float (&x)[2], bool first, bool second) {
  if constexpr (Aligned) {
    if (first) ptx::st_global(to, pack<T, 2>(x));
  } else {
    if (first) ptx::st_global(to, pack<T, 1>(x));
    if (second) ptx::st_global(to + 1, pack<T, 1>(x + 1));
  }
}

}  // namespace autosched::tile
