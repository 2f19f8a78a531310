// ldmatrix + mma.sync of 8-bit types: e4m3 and e5m2 (sm_89), and signed char with i32 accumulators (sm_80).
#pragma once
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/ptx/mma/eight_bit.cuh>

namespace autosched {

template <class T>
struct Mma8Bit : MmaSync<T> {
  using typename MmaSync<T>::FragmentA;
  using typename MmaSync<T>::FragmentB;
  using typename MmaSync<T>::FragmentC;

  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    if constexpr (is_same<T, e4m3>) {
      ptx::mma_m16n8k32_e4m3(c.x, a.x, b.x);
    } else if constexpr (is_same<T, e5m2>) {
      ptx::mma_m16n8k32_e5m2(c.x, a.x, b.x);
    } else {
      static_assert(is_same<T, signed char>, "8-bit types must be e4m3, e5m2 or signed char");
      ptx::mma_m16n8k32_s8(c.x, a.x, b.x);
    }
  }
};

}  // namespace autosched
