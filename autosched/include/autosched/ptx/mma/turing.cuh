// mma.sync of sm_75: PTX ISA 9.7.14.5 (fragment layouts: m16n8k8 in 9.7.14.5.7, m8n8k16 in 9.7.14.5.3). d += a * b.
#pragma once

namespace autosched::ptx {

__device__ __forceinline__ void mma_m16n8k8_f32(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
// Lane l has four adjacent elements along k of row l / 4 of a and of column l / 4 of b, and two adjacent elements of
// row l / 4 of d.
__device__ __forceinline__ void mma_m8n8k16_s8(int& d0, int& d1, unsigned a, unsigned b) {
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d0), "+r"(d1)
               : "r"(a), "r"(b));
}

}  // namespace autosched::ptx
