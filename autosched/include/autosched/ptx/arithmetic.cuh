// Arithmetic for which C++ has no operator: PTX ISA 9.7.3, and 9.7.4 for f16.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// Returns the larger number; NaN if either is NaN.
__device__ __forceinline__ float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// Returns the smaller number; NaN if either is NaN.
__device__ __forceinline__ float min_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// Converts both halves, rounded to nearest even.
__device__ __forceinline__ f16x2 add_rn(f16x2 a, f16x2 b) {
  unsigned y;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(static_cast<unsigned>(a)), "r"(static_cast<unsigned>(b)));
  return f16x2(y);
}
// a * b + c of both halves, rounded once.
__device__ __forceinline__ f16x2 fma_rn(f16x2 a, f16x2 b, f16x2 c) {
  unsigned y;
  asm("fma.rn.f16x2 %0, %1, %2, %3;"
      : "=r"(y)
      : "r"(static_cast<unsigned>(a)), "r"(static_cast<unsigned>(b)), "r"(static_cast<unsigned>(c)));
  return f16x2(y);
}
// Returns a * b + c, rounded once, for each of the two bf16 values in a word.
__device__ __forceinline__ unsigned fma_rn_bf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned y;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}
// Selects bytes of a (0 to 3) and b (4 to 7) by the hexadecimal digits of Selected, most significant byte first.
template <unsigned Selected>
__device__ __forceinline__ unsigned prmt(unsigned a, unsigned b) {
  unsigned y;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "n"(Selected));
  return y;
}
// Copies the lower or the upper half of a register to both halves of the result. ptxas turns this selection into a
// modifier of the arithmetic instruction that reads the result, whereas a prmt would remain an instruction.
__device__ __forceinline__ unsigned low_twice(unsigned x) {
  unsigned y;
  asm("{\n  .reg .b16 low, high;\n  mov.b32 {low, high}, %1;\n  mov.b32 %0, {low, low};\n}" : "=r"(y) : "r"(x));
  return y;
}
__device__ __forceinline__ unsigned high_twice(unsigned x) {
  unsigned y;
  asm("{\n  .reg .b16 low, high;\n  mov.b32 {low, high}, %1;\n  mov.b32 %0, {high, high};\n}" : "=r"(y) : "r"(x));
  return y;
}
// 2 to the power x, to about 2 ulp; subnormal results are zero.
__device__ __forceinline__ float ex2_approx_ftz(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// a / b, to 2 ulp over the whole range.
__device__ __forceinline__ float div_full(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// 1 / x, to 1 ulp; subnormal numbers are zero.
__device__ __forceinline__ float rcp_approx_ftz(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace autosched::ptx
