// Replaces ptx/convert.cuh on sm_75, which has no cvt to bf16. cvt: PTX ISA 9.7.9.21. Sixteen-bit floats are passed as
// their bits.
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
// bf16 is the upper half of an f32: the conversion is a shift and exact.
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
// Rounds to nearest, ties to even: adds half of the lowest remaining bit, minus one if that bit is 0. Infinity is
// unchanged; NaN becomes the NaN of cvt.rn.bf16.f32.
__device__ __forceinline__ unsigned short cvt_rn_bf16_f32(float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}
// Kernels refer to this function for all types, but never call it on sm_75.
__device__ unsigned cvt_rna_tf32(unsigned f32_bits);
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float float_of(unsigned bits) { return __uint_as_float(bits); }

}  // namespace autosched::ptx
