// ldmatrix + mma.sync of sm_75 (PTX ISA 9.7.14.5): f16 by m16n8k8 with sums in f32, and i8 by two of m8n8k16, which are
// the upper and the lower half of 16 rows. Later architectures multiply twice as much of k at a time.
#pragma once
#include <autosched/intrinsics/mma_sync.cuh>

namespace autosched {
namespace ptx {

// Fragments as in 9.7.14.5.7. d += a * b.
__device__ __forceinline__ void mma_m16n8k8_f32(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
// Lane l holds four neighbours along k: row l / 4 of a, column l / 4 of b, and two neighbours of d's row l / 4.
__device__ __forceinline__ void mma_m8n8k16_s8(int& d0, int& d1, unsigned a, unsigned b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d0), "+r"(d1)
               : "r"(a), "r"(b));
}

}  // namespace ptx

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
