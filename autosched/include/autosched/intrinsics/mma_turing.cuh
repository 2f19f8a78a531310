// ldmatrix + mma.sync of sm_75 (PTX ISA 9.7.14.5). Products of f16 use m16n8k8 with f32 accumulators. Products of i8
// use m8n8k16 twice: once for the upper half of 16 rows, and once for the lower half. Later architectures have
// instructions with twice the k.
#pragma once
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/ptx/mma/turing.cuh>

namespace autosched {

struct MmaTuringF16 : MmaSync<f16, float, 8> {
  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    ptx::mma_m16n8k8_f32(c.x, a.x, b.x);
  }
};

struct MmaTuringI8 : MmaSync<signed char, int, 16> {
  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    ptx::mma_m8n8k16_s8(c.x[0], c.x[1], a.x[0], b.x[0]);
    ptx::mma_m8n8k16_s8(c.x[2], c.x[3], a.x[1], b.x[0]);
  }
};

}  // namespace autosched
