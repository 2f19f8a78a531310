// ldmatrix + mma.sync with block scales (sm_120a). The type of elements, and the number of scales per row of a
// fragment, are:
// - mxf8: e4m3, one scale
// - mxf4: e2m1, two scales
// - nvf4: e2m1, four scales
#pragma once
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/ptx/mma/block_scaled.cuh>

namespace autosched {

template <class T, int Scales>
struct MmaBlockScaled : MmaSync<T, float, 32> {
  using Base = MmaSync<T, float, 32>;
  using typename Base::FragmentA;
  using typename Base::FragmentB;
  using typename Base::FragmentC;
  static constexpr int scales = Scales;  // number of scales per row of a fragment

  template <int LanesA, int LanesB>
  __device__ static __forceinline__ void multiply_scaled(FragmentC& c, const FragmentA& a, const FragmentB& b,
                                                         unsigned scales_a, unsigned scales_b) {
    if constexpr (is_same<T, e4m3>) {
      static_assert(Scales == 1, "mxf8 has blocks of 32 elements");
      ptx::mma_m16n8k32_mxf8<LanesA, LanesB>(c.x, a.x, b.x, scales_a, scales_b);
    } else if constexpr (Scales == 2) {
      ptx::mma_m16n8k64_mxf4<LanesA, LanesB>(c.x, a.x, b.x, scales_a, scales_b);
    } else {
      static_assert(is_same<T, e2m1x2> && Scales == 4, "only mxf8, mxf4 and nvf4 have block scales");
      ptx::mma_m16n8k64_nvf4<LanesA, LanesB>(c.x, a.x, b.x, scales_a, scales_b);
    }
  }
};

// Products of e4m3 and e5m2 with scales of 1. On GeForce cards this has twice the rate of mma.sync without scales.
template <class T>
struct MmaUnitScaled : MmaSync<T, float, 32> {
  using Base = MmaSync<T, float, 32>;
  using typename Base::FragmentA;
  using typename Base::FragmentB;
  using typename Base::FragmentC;

  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    constexpr unsigned one = 0x7f;  // 1.0 in ue8m0
    if constexpr (is_same<T, e4m3>) {
      ptx::mma_m16n8k32_mxf8<0, 0>(c.x, a.x, b.x, one, one);
    } else {
      static_assert(is_same<T, e5m2>, "8-bit floats must be e4m3 or e5m2");
      ptx::mma_m16n8k32_mxf8_e5m2<0, 0>(c.x, a.x, b.x, one, one);
    }
  }
};

}  // namespace autosched
