// cvt: PTX ISA 9.7.9.21. Sixteen-bit floats are passed as their bits.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

__device__ __forceinline__ float cvt_f32_f16(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
// Converts the lower or the upper half of a register.
__device__ __forceinline__ float cvt_f32_f16_low(f16x2 x) { return cvt_f32_f16(static_cast<unsigned short>(x)); }
__device__ __forceinline__ float cvt_f32_f16_high(f16x2 x) {
  return cvt_f32_f16(static_cast<unsigned short>(static_cast<unsigned>(x) >> 16));
}
// bf16 is the upper half of an f32, so the conversion is only a shift, and it is exact.
__device__ __forceinline__ float cvt_f32_bf16(unsigned short x) {
  float y;
  asm("mov.b32 %0, {0, %1};" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ unsigned short cvt_rn_f16_f32(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ unsigned short cvt_rn_bf16_f32(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
// Converts two numbers to e4m3; the first one is in the lower byte.
__device__ __forceinline__ f16x2 cvt_rn_f16x2_e4m3x2(unsigned short x) {
  unsigned y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(x));
  return f16x2(y);
}
// Round to nearest, ties away from zero, to the 10 mantissa bits of tf32.
__device__ __forceinline__ unsigned cvt_rna_tf32(unsigned f32_bits) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(f32_bits)));
  return y;
}
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float float_of(unsigned bits) { return __uint_as_float(bits); }

}  // namespace autosched::ptx
