// Products of operands with block scales along k (mxf8). If the instruction cannot apply the scales, the sums of each
// block of k are multiplied by them.
#pragma once
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// True if an intrinsic has block scales.
template <class I>
__host__ __device__ constexpr auto has_scales(int) -> decltype(I::scales, true) {
  return true;
}
template <class I>
__host__ __device__ constexpr bool has_scales(long) {
  return false;
}

// 2^(exponent - 127); NaN for 255.
__device__ __forceinline__ float scale_of(unsigned exponent) {
  const unsigned bits = exponent == 0 ? 0x00400000u : exponent << 23;
  return ptx::float_of(exponent == 255 ? 0x7fffffffu : bits);
}

// acc += (a * scales) @ (b * scales) for FM x FN fragments of one step of k. A word contains the scales of a line, one
// scale per block of k. scales_a[2 * i] and scales_a[2 * i + 1] are for this lane's two rows of fragment i. scales_b[j]
// is for this lane's column of fragment j.
template <class I, int FM, int FN, class Sum>
__device__ __forceinline__ void multiply_scaled(Sum* acc, const typename I::FragmentA* a, const typename I::FragmentB* b,
                                                const unsigned* scales_a, const unsigned* scales_b, int lane) {
#pragma unroll
  for (int i = 0; i < FM; ++i) {
#pragma unroll
    for (int j = 0; j < FN; ++j) {
      auto& sums = *reinterpret_cast<typename I::FragmentC*>(acc + (i * FN + j) * I::c_registers);
      if constexpr (has_scales<I>(0)) {
        I::template multiply_scaled<0, 0>(sums, a[i], b[j], lane % 2 == 0 ? scales_a[2 * i] : scales_a[2 * i + 1], scales_b[j]);
      } else {
        typename I::FragmentC block{};
        I::template multiply<void, void>(block, a[i], b[j]);
        float of_columns[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) of_columns[c] = scale_of(ptx::shfl_idx(scales_b[j], lane % 4 * 8 + c * 4));
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float scaled = block.x[r] * scale_of(scales_a[2 * i + r / 2]);
          sums.x[r] = fmaf(scaled, of_columns[r % 2], sums.x[r]);
        }
      }
    }
  }
}

}  // namespace autosched::tile
