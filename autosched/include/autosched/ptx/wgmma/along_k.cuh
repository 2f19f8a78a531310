// wgmma of types that must be contiguous along k (PTX ISA 9.7.15.5.2):
// - f32, multiplied as tf32: tensor cores ignore the other bits
// - 8-bit floats
// - i8, with i32 accumulators
#pragma once
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched::ptx {

// clang-format off
#undef AUTOSCHED_WGMMA
#define AUTOSCHED_WGMMA(N, TYPE, SUM, KIND, K_AND_TYPES, OPERANDS, ACCUMULATE)                                         \
  template <>                                                                                                          \
  struct Wgmma<TYPE, N> {                                                                                              \
    template <int MajorA, int MajorB>                                                                                  \
    __device__ __forceinline__ static void multiply(SUM (&d)[N / 2], unsigned long long a, unsigned long long b,       \
                                                    int accumulate) {                                                  \
      static_assert(MajorA == 0 && MajorB == 0, "rule layout: wgmma requires this type to be contiguous along k");                    \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ACCUMULATE ", 0;\n\t"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N K_AND_TYPES " {" AUTOSCHED_R##N "}, " OPERANDS ";\n\t}"      \
                   : AUTOSCHED_D##N(KIND)                                                                              \
                   : "l"(a), "l"(b), "r"(accumulate)                                                                   \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };
#define AUTOSCHED_WGMMA_FLOAT_N(N, OPERANDS, ACCUMULATE, MORE)                                      \
  AUTOSCHED_WGMMA(N, float, float, "f", "k8.f32.tf32.tf32", OPERANDS ", 1, 1", ACCUMULATE)          \
  AUTOSCHED_WGMMA(N, e4m3, float, "f", "k32.f32.e4m3.e4m3", OPERANDS ", 1, 1", ACCUMULATE)          \
  AUTOSCHED_WGMMA(N, e5m2, float, "f", "k32.f32.e5m2.e5m2", OPERANDS ", 1, 1", ACCUMULATE)
#define AUTOSCHED_WGMMA_INTEGER_N(N, OPERANDS, ACCUMULATE, MORE) \
  AUTOSCHED_WGMMA(N, signed char, int, "r", "k32.s32.s8.s8", OPERANDS, ACCUMULATE)

AUTOSCHED_WGMMA_EVERY_TYPE(AUTOSCHED_WGMMA_FLOAT_N)
AUTOSCHED_WGMMA_FLOATS_ALONE(AUTOSCHED_WGMMA_FLOAT_N)
AUTOSCHED_WGMMA_EVERY_TYPE(AUTOSCHED_WGMMA_INTEGER_N)
// clang-format on

}  // namespace autosched::ptx
