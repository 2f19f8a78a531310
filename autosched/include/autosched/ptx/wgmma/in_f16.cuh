// wgmma of f16 with f16 accumulators (PTX ISA 9.7.15.5.2). d has 64 x N elements as in ptx/wgmma/wgmma.cuh, but an
// accumulator register has two columns. A is in shared memory or in registers.
#pragma once
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched::ptx {

__device__ __forceinline__ void hold_register(f16x2& x) { asm volatile("" : "+r"(x)); }

// clang-format off
// The accumulator registers of a 64 x N tile: their operand numbers, and their asm operands.
#define AUTOSCHED_PAIRS8 "%0, %1"
#define AUTOSCHED_PAIRS16 AUTOSCHED_PAIRS8 ", %2, %3"
#define AUTOSCHED_PAIRS24 AUTOSCHED_PAIRS16 ", %4, %5"
#define AUTOSCHED_PAIRS32 AUTOSCHED_PAIRS24 ", %6, %7"
#define AUTOSCHED_PAIRS40 AUTOSCHED_PAIRS32 ", %8, %9"
#define AUTOSCHED_PAIRS48 AUTOSCHED_PAIRS40 ", %10, %11"
#define AUTOSCHED_PAIRS56 AUTOSCHED_PAIRS48 ", %12, %13"
#define AUTOSCHED_PAIRS64 AUTOSCHED_PAIRS56 ", %14, %15"
#define AUTOSCHED_PAIRS72 AUTOSCHED_PAIRS64 ", %16, %17"
#define AUTOSCHED_PAIRS80 AUTOSCHED_PAIRS72 ", %18, %19"
#define AUTOSCHED_PAIRS88 AUTOSCHED_PAIRS80 ", %20, %21"
#define AUTOSCHED_PAIRS96 AUTOSCHED_PAIRS88 ", %22, %23"
#define AUTOSCHED_PAIRS104 AUTOSCHED_PAIRS96 ", %24, %25"
#define AUTOSCHED_PAIRS112 AUTOSCHED_PAIRS104 ", %26, %27"
#define AUTOSCHED_PAIRS120 AUTOSCHED_PAIRS112 ", %28, %29"
#define AUTOSCHED_PAIRS128 AUTOSCHED_PAIRS120 ", %30, %31"
#define AUTOSCHED_PAIRS136 AUTOSCHED_PAIRS128 ", %32, %33"
#define AUTOSCHED_PAIRS144 AUTOSCHED_PAIRS136 ", %34, %35"
#define AUTOSCHED_PAIRS152 AUTOSCHED_PAIRS144 ", %36, %37"
#define AUTOSCHED_PAIRS160 AUTOSCHED_PAIRS152 ", %38, %39"
#define AUTOSCHED_PAIRS168 AUTOSCHED_PAIRS160 ", %40, %41"
#define AUTOSCHED_PAIRS176 AUTOSCHED_PAIRS168 ", %42, %43"
#define AUTOSCHED_PAIRS184 AUTOSCHED_PAIRS176 ", %44, %45"
#define AUTOSCHED_PAIRS192 AUTOSCHED_PAIRS184 ", %46, %47"
#define AUTOSCHED_PAIRS200 AUTOSCHED_PAIRS192 ", %48, %49"
#define AUTOSCHED_PAIRS208 AUTOSCHED_PAIRS200 ", %50, %51"
#define AUTOSCHED_PAIRS216 AUTOSCHED_PAIRS208 ", %52, %53"
#define AUTOSCHED_PAIRS224 AUTOSCHED_PAIRS216 ", %54, %55"
#define AUTOSCHED_PAIRS232 AUTOSCHED_PAIRS224 ", %56, %57"
#define AUTOSCHED_PAIRS240 AUTOSCHED_PAIRS232 ", %58, %59"
#define AUTOSCHED_PAIRS248 AUTOSCHED_PAIRS240 ", %60, %61"
#define AUTOSCHED_PAIRS256 AUTOSCHED_PAIRS248 ", %62, %63"
#define AUTOSCHED_HALVES8 "+r"(d[0]), "+r"(d[1])
#define AUTOSCHED_HALVES16 AUTOSCHED_HALVES8, "+r"(d[2]), "+r"(d[3])
#define AUTOSCHED_HALVES24 AUTOSCHED_HALVES16, "+r"(d[4]), "+r"(d[5])
#define AUTOSCHED_HALVES32 AUTOSCHED_HALVES24, "+r"(d[6]), "+r"(d[7])
#define AUTOSCHED_HALVES40 AUTOSCHED_HALVES32, "+r"(d[8]), "+r"(d[9])
#define AUTOSCHED_HALVES48 AUTOSCHED_HALVES40, "+r"(d[10]), "+r"(d[11])
#define AUTOSCHED_HALVES56 AUTOSCHED_HALVES48, "+r"(d[12]), "+r"(d[13])
#define AUTOSCHED_HALVES64 AUTOSCHED_HALVES56, "+r"(d[14]), "+r"(d[15])
#define AUTOSCHED_HALVES72 AUTOSCHED_HALVES64, "+r"(d[16]), "+r"(d[17])
#define AUTOSCHED_HALVES80 AUTOSCHED_HALVES72, "+r"(d[18]), "+r"(d[19])
#define AUTOSCHED_HALVES88 AUTOSCHED_HALVES80, "+r"(d[20]), "+r"(d[21])
#define AUTOSCHED_HALVES96 AUTOSCHED_HALVES88, "+r"(d[22]), "+r"(d[23])
#define AUTOSCHED_HALVES104 AUTOSCHED_HALVES96, "+r"(d[24]), "+r"(d[25])
#define AUTOSCHED_HALVES112 AUTOSCHED_HALVES104, "+r"(d[26]), "+r"(d[27])
#define AUTOSCHED_HALVES120 AUTOSCHED_HALVES112, "+r"(d[28]), "+r"(d[29])
#define AUTOSCHED_HALVES128 AUTOSCHED_HALVES120, "+r"(d[30]), "+r"(d[31])
#define AUTOSCHED_HALVES136 AUTOSCHED_HALVES128, "+r"(d[32]), "+r"(d[33])
#define AUTOSCHED_HALVES144 AUTOSCHED_HALVES136, "+r"(d[34]), "+r"(d[35])
#define AUTOSCHED_HALVES152 AUTOSCHED_HALVES144, "+r"(d[36]), "+r"(d[37])
#define AUTOSCHED_HALVES160 AUTOSCHED_HALVES152, "+r"(d[38]), "+r"(d[39])
#define AUTOSCHED_HALVES168 AUTOSCHED_HALVES160, "+r"(d[40]), "+r"(d[41])
#define AUTOSCHED_HALVES176 AUTOSCHED_HALVES168, "+r"(d[42]), "+r"(d[43])
#define AUTOSCHED_HALVES184 AUTOSCHED_HALVES176, "+r"(d[44]), "+r"(d[45])
#define AUTOSCHED_HALVES192 AUTOSCHED_HALVES184, "+r"(d[46]), "+r"(d[47])
#define AUTOSCHED_HALVES200 AUTOSCHED_HALVES192, "+r"(d[48]), "+r"(d[49])
#define AUTOSCHED_HALVES208 AUTOSCHED_HALVES200, "+r"(d[50]), "+r"(d[51])
#define AUTOSCHED_HALVES216 AUTOSCHED_HALVES208, "+r"(d[52]), "+r"(d[53])
#define AUTOSCHED_HALVES224 AUTOSCHED_HALVES216, "+r"(d[54]), "+r"(d[55])
#define AUTOSCHED_HALVES232 AUTOSCHED_HALVES224, "+r"(d[56]), "+r"(d[57])
#define AUTOSCHED_HALVES240 AUTOSCHED_HALVES232, "+r"(d[58]), "+r"(d[59])
#define AUTOSCHED_HALVES248 AUTOSCHED_HALVES240, "+r"(d[60]), "+r"(d[61])
#define AUTOSCHED_HALVES256 AUTOSCHED_HALVES248, "+r"(d[62]), "+r"(d[63])

// EACH(n, ...): all other arguments are lists of asm operands. The first three are for A in shared memory:
// - the descriptors and the predicate
// - the source of the predicate
// - whether A and B are contiguous along m and n
// The last three are for A in registers:
// - A, the descriptor of B, and the predicate
// - the source of the predicate
// - whether B is contiguous along n
#define AUTOSCHED_WGMMA_IN_F16(EACH) \
  EACH(8, "%2, %3, p", "%4", "%5, %6", "{%2, %3, %4, %5}, %6, p", "%7", "%8") \
  EACH(16, "%4, %5, p", "%6", "%7, %8", "{%4, %5, %6, %7}, %8, p", "%9", "%10") \
  EACH(24, "%6, %7, p", "%8", "%9, %10", "{%6, %7, %8, %9}, %10, p", "%11", "%12") \
  EACH(32, "%8, %9, p", "%10", "%11, %12", "{%8, %9, %10, %11}, %12, p", "%13", "%14") \
  EACH(40, "%10, %11, p", "%12", "%13, %14", "{%10, %11, %12, %13}, %14, p", "%15", "%16") \
  EACH(48, "%12, %13, p", "%14", "%15, %16", "{%12, %13, %14, %15}, %16, p", "%17", "%18") \
  EACH(56, "%14, %15, p", "%16", "%17, %18", "{%14, %15, %16, %17}, %18, p", "%19", "%20") \
  EACH(64, "%16, %17, p", "%18", "%19, %20", "{%16, %17, %18, %19}, %20, p", "%21", "%22") \
  EACH(72, "%18, %19, p", "%20", "%21, %22", "{%18, %19, %20, %21}, %22, p", "%23", "%24") \
  EACH(80, "%20, %21, p", "%22", "%23, %24", "{%20, %21, %22, %23}, %24, p", "%25", "%26") \
  EACH(88, "%22, %23, p", "%24", "%25, %26", "{%22, %23, %24, %25}, %26, p", "%27", "%28") \
  EACH(96, "%24, %25, p", "%26", "%27, %28", "{%24, %25, %26, %27}, %28, p", "%29", "%30") \
  EACH(104, "%26, %27, p", "%28", "%29, %30", "{%26, %27, %28, %29}, %30, p", "%31", "%32") \
  EACH(112, "%28, %29, p", "%30", "%31, %32", "{%28, %29, %30, %31}, %32, p", "%33", "%34") \
  EACH(120, "%30, %31, p", "%32", "%33, %34", "{%30, %31, %32, %33}, %34, p", "%35", "%36") \
  EACH(128, "%32, %33, p", "%34", "%35, %36", "{%32, %33, %34, %35}, %36, p", "%37", "%38") \
  EACH(136, "%34, %35, p", "%36", "%37, %38", "{%34, %35, %36, %37}, %38, p", "%39", "%40") \
  EACH(144, "%36, %37, p", "%38", "%39, %40", "{%36, %37, %38, %39}, %40, p", "%41", "%42") \
  EACH(152, "%38, %39, p", "%40", "%41, %42", "{%38, %39, %40, %41}, %42, p", "%43", "%44") \
  EACH(160, "%40, %41, p", "%42", "%43, %44", "{%40, %41, %42, %43}, %44, p", "%45", "%46") \
  EACH(168, "%42, %43, p", "%44", "%45, %46", "{%42, %43, %44, %45}, %46, p", "%47", "%48") \
  EACH(176, "%44, %45, p", "%46", "%47, %48", "{%44, %45, %46, %47}, %48, p", "%49", "%50") \
  EACH(184, "%46, %47, p", "%48", "%49, %50", "{%46, %47, %48, %49}, %50, p", "%51", "%52") \
  EACH(192, "%48, %49, p", "%50", "%51, %52", "{%48, %49, %50, %51}, %52, p", "%53", "%54") \
  EACH(200, "%50, %51, p", "%52", "%53, %54", "{%50, %51, %52, %53}, %54, p", "%55", "%56") \
  EACH(208, "%52, %53, p", "%54", "%55, %56", "{%52, %53, %54, %55}, %56, p", "%57", "%58") \
  EACH(216, "%54, %55, p", "%56", "%57, %58", "{%54, %55, %56, %57}, %58, p", "%59", "%60") \
  EACH(224, "%56, %57, p", "%58", "%59, %60", "{%56, %57, %58, %59}, %60, p", "%61", "%62") \
  EACH(232, "%58, %59, p", "%60", "%61, %62", "{%58, %59, %60, %61}, %62, p", "%63", "%64") \
  EACH(240, "%60, %61, p", "%62", "%63, %64", "{%60, %61, %62, %63}, %64, p", "%65", "%66") \
  EACH(248, "%62, %63, p", "%64", "%65, %66", "{%62, %63, %64, %65}, %66, p", "%67", "%68") \
  EACH(256, "%64, %65, p", "%66", "%67, %68", "{%64, %65, %66, %67}, %68, p", "%69", "%70")

#define AUTOSCHED_WGMMA_IN_F16_N(N, OPERANDS, ACCUMULATE, MAJORS, A_OPERANDS, A_ACCUMULATE, A_MAJOR)                    \
  template <>                                                                                                          \
  struct Wgmma<f16, N, true> {                                                                                         \
    template <int MajorA, int MajorB>                                                                                  \
    __device__ __forceinline__ static void multiply(f16x2 (&d)[N / 4], unsigned long long a, unsigned long long b,     \
                                                    int accumulate) {                                                  \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ACCUMULATE ", 0;\n\t"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f16.f16.f16 {" AUTOSCHED_PAIRS##N "}, " OPERANDS         \
                   ", 1, 1, " MAJORS ";\n\t}"                                                                          \
                   : AUTOSCHED_HALVES##N                                                                               \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(MajorA), "n"(MajorB)                                         \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };                                                                                                                   \
  template <>                                                                                                          \
  struct WgmmaOfRegisters<f16, N, true> {                                                                              \
    template <int MajorB>                                                                                              \
    __device__ __forceinline__ static void multiply(f16x2 (&d)[N / 4], const unsigned (&a)[4], unsigned long long b,   \
                                                    int accumulate) {                                                  \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " A_ACCUMULATE ", 0;\n\t"                                     \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f16.f16.f16 {" AUTOSCHED_PAIRS##N "}, " A_OPERANDS       \
                   ", 1, 1, " A_MAJOR ";\n\t}"                                                                         \
                   : AUTOSCHED_HALVES##N                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(MajorB)                  \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };

AUTOSCHED_WGMMA_IN_F16(AUTOSCHED_WGMMA_IN_F16_N)
// clang-format on

}  // namespace autosched::ptx
