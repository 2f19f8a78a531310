// wgmma with A from registers: PTX ISA 9.7.15.5.2. A row has two 16-byte pieces along k, and lane l of a warp holds
// four bytes of each, from byte 4 * (l % 4) on. Registers 0 and 2 are for row l / 4 + 16 * warp, and registers 1 and 3
// for the row that is 8 rows below. Registers must not change until the multiplication is complete.
#pragma once
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched::ptx {

// clang-format off
// EACH(n, ...) for every n. Its other three arguments are lists of asm operands:
// - A, the descriptor of B, and the predicate
// - the source of the predicate
// - whether B is contiguous along n
#define AUTOSCHED_WGMMA_A_EVERY_TYPE(EACH) \
  EACH(8, "{%4, %5, %6, %7}, %8, p", "%9", "%10") \
  EACH(16, "{%8, %9, %10, %11}, %12, p", "%13", "%14") \
  EACH(24, "{%12, %13, %14, %15}, %16, p", "%17", "%18") \
  EACH(32, "{%16, %17, %18, %19}, %20, p", "%21", "%22") \
  EACH(48, "{%24, %25, %26, %27}, %28, p", "%29", "%30") \
  EACH(64, "{%32, %33, %34, %35}, %36, p", "%37", "%38") \
  EACH(80, "{%40, %41, %42, %43}, %44, p", "%45", "%46") \
  EACH(96, "{%48, %49, %50, %51}, %52, p", "%53", "%54") \
  EACH(112, "{%56, %57, %58, %59}, %60, p", "%61", "%62") \
  EACH(128, "{%64, %65, %66, %67}, %68, p", "%69", "%70") \
  EACH(144, "{%72, %73, %74, %75}, %76, p", "%77", "%78") \
  EACH(160, "{%80, %81, %82, %83}, %84, p", "%85", "%86") \
  EACH(176, "{%88, %89, %90, %91}, %92, p", "%93", "%94") \
  EACH(192, "{%96, %97, %98, %99}, %100, p", "%101", "%102") \
  EACH(208, "{%104, %105, %106, %107}, %108, p", "%109", "%110") \
  EACH(224, "{%112, %113, %114, %115}, %116, p", "%117", "%118") \
  EACH(240, "{%120, %121, %122, %123}, %124, p", "%125", "%126") \
  EACH(256, "{%128, %129, %130, %131}, %132, p", "%133", "%134")
#define AUTOSCHED_WGMMA_A_FLOATS_ALONE(EACH) \
  EACH(40, "{%20, %21, %22, %23}, %24, p", "%25", "%26") \
  EACH(56, "{%28, %29, %30, %31}, %32, p", "%33", "%34") \
  EACH(72, "{%36, %37, %38, %39}, %40, p", "%41", "%42") \
  EACH(88, "{%44, %45, %46, %47}, %48, p", "%49", "%50") \
  EACH(104, "{%52, %53, %54, %55}, %56, p", "%57", "%58") \
  EACH(120, "{%60, %61, %62, %63}, %64, p", "%65", "%66") \
  EACH(136, "{%68, %69, %70, %71}, %72, p", "%73", "%74") \
  EACH(152, "{%76, %77, %78, %79}, %80, p", "%81", "%82") \
  EACH(168, "{%84, %85, %86, %87}, %88, p", "%89", "%90") \
  EACH(184, "{%92, %93, %94, %95}, %96, p", "%97", "%98") \
  EACH(200, "{%100, %101, %102, %103}, %104, p", "%105", "%106") \
  EACH(216, "{%108, %109, %110, %111}, %112, p", "%113", "%114") \
  EACH(232, "{%116, %117, %118, %119}, %120, p", "%121", "%122") \
  EACH(248, "{%124, %125, %126, %127}, %128, p", "%129", "%130")

#define AUTOSCHED_WGMMA_A(N, TYPE, SUM, KIND, K_AND_TYPES, OPERANDS, ACCUMULATE, MORE)                                 \
  template <>                                                                                                          \
  struct WgmmaOfRegisters<TYPE, N> {                                                                                   \
    template <int MajorB>                                                                                              \
    __device__ __forceinline__ static void multiply(SUM (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,     \
                                                    int accumulate) {                                                  \
      static_assert(MajorB == 0 || sizeof(TYPE) == 2, "rule layout: wgmma requires this type to be contiguous along k");              \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ACCUMULATE ", 0;\n\t"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N K_AND_TYPES " {" AUTOSCHED_R##N "}, " OPERANDS MORE ";\n\t}" \
                   : AUTOSCHED_D##N(KIND)                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(MajorB)                  \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };
#define AUTOSCHED_WGMMA_A_FLOAT_N(N, OPERANDS, ACCUMULATE, MAJOR)                                                       \
  AUTOSCHED_WGMMA_A(N, f16, float, "f", "k16.f32.f16.f16", OPERANDS, ACCUMULATE, ", 1, 1, " MAJOR)                      \
  AUTOSCHED_WGMMA_A(N, bf16, float, "f", "k16.f32.bf16.bf16", OPERANDS, ACCUMULATE, ", 1, 1, " MAJOR)                   \
  AUTOSCHED_WGMMA_A(N, float, float, "f", "k8.f32.tf32.tf32", OPERANDS, ACCUMULATE, ", 1, 1")                           \
  AUTOSCHED_WGMMA_A(N, e4m3, float, "f", "k32.f32.e4m3.e4m3", OPERANDS, ACCUMULATE, ", 1, 1")                           \
  AUTOSCHED_WGMMA_A(N, e5m2, float, "f", "k32.f32.e5m2.e5m2", OPERANDS, ACCUMULATE, ", 1, 1")
#define AUTOSCHED_WGMMA_A_INTEGER_N(N, OPERANDS, ACCUMULATE, MAJOR) \
  AUTOSCHED_WGMMA_A(N, signed char, int, "r", "k32.s32.s8.s8", OPERANDS, ACCUMULATE, "")

AUTOSCHED_WGMMA_A_EVERY_TYPE(AUTOSCHED_WGMMA_A_FLOAT_N)
AUTOSCHED_WGMMA_A_FLOATS_ALONE(AUTOSCHED_WGMMA_A_FLOAT_N)
AUTOSCHED_WGMMA_A_EVERY_TYPE(AUTOSCHED_WGMMA_A_INTEGER_N)
// clang-format on

}  // namespace autosched::ptx
