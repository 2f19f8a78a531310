// wgmma: PTX ISA 9.7.15. A warpgroup of four warps multiplies tiles in shared memory, while its warps go on.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// Orders the warp's accesses to accumulators and shared memory before the multiplications that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most Pending of the warp's groups are in flight.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving uses of an accumulator across: it does not know that a wait makes them valid.
__device__ __forceinline__ void hold_register(float& x) { asm volatile("" : "+f"(x)); }

// d += a @ b, or d = a @ b where `accumulate` is 0: d of 64 x N, whose row is lane / 4 + 16 * warp (+ 8 for registers
// 2 and 3 of each four) and whose column is 2 * (lane % 4) + 8 * (register / 4) (+ 1 for odd ones); a of 64 x 16 and b of
// 16 x N by their descriptors. MajorA and MajorB are 1 where the tile lies along m or n, 0 where it lies along k.
template <class T, int N>
struct Wgmma;

// The registers of 64 x N, by their places among the operands.
// clang-format off
#define AUTOSCHED_R8 "%0, %1, %2, %3"
#define AUTOSCHED_R16 AUTOSCHED_R8 ", %4, %5, %6, %7"
#define AUTOSCHED_R24 AUTOSCHED_R16 ", %8, %9, %10, %11"
#define AUTOSCHED_R32 AUTOSCHED_R24 ", %12, %13, %14, %15"
#define AUTOSCHED_R40 AUTOSCHED_R32 ", %16, %17, %18, %19"
#define AUTOSCHED_R48 AUTOSCHED_R40 ", %20, %21, %22, %23"
#define AUTOSCHED_R56 AUTOSCHED_R48 ", %24, %25, %26, %27"
#define AUTOSCHED_R64 AUTOSCHED_R56 ", %28, %29, %30, %31"
#define AUTOSCHED_R72 AUTOSCHED_R64 ", %32, %33, %34, %35"
#define AUTOSCHED_R80 AUTOSCHED_R72 ", %36, %37, %38, %39"
#define AUTOSCHED_R88 AUTOSCHED_R80 ", %40, %41, %42, %43"
#define AUTOSCHED_R96 AUTOSCHED_R88 ", %44, %45, %46, %47"
#define AUTOSCHED_R104 AUTOSCHED_R96 ", %48, %49, %50, %51"
#define AUTOSCHED_R112 AUTOSCHED_R104 ", %52, %53, %54, %55"
#define AUTOSCHED_R120 AUTOSCHED_R112 ", %56, %57, %58, %59"
#define AUTOSCHED_R128 AUTOSCHED_R120 ", %60, %61, %62, %63"
#define AUTOSCHED_R136 AUTOSCHED_R128 ", %64, %65, %66, %67"
#define AUTOSCHED_R144 AUTOSCHED_R136 ", %68, %69, %70, %71"
#define AUTOSCHED_R152 AUTOSCHED_R144 ", %72, %73, %74, %75"
#define AUTOSCHED_R160 AUTOSCHED_R152 ", %76, %77, %78, %79"
#define AUTOSCHED_R168 AUTOSCHED_R160 ", %80, %81, %82, %83"
#define AUTOSCHED_R176 AUTOSCHED_R168 ", %84, %85, %86, %87"
#define AUTOSCHED_R184 AUTOSCHED_R176 ", %88, %89, %90, %91"
#define AUTOSCHED_R192 AUTOSCHED_R184 ", %92, %93, %94, %95"
#define AUTOSCHED_R200 AUTOSCHED_R192 ", %96, %97, %98, %99"
#define AUTOSCHED_R208 AUTOSCHED_R200 ", %100, %101, %102, %103"
#define AUTOSCHED_R216 AUTOSCHED_R208 ", %104, %105, %106, %107"
#define AUTOSCHED_R224 AUTOSCHED_R216 ", %108, %109, %110, %111"
#define AUTOSCHED_R232 AUTOSCHED_R224 ", %112, %113, %114, %115"
#define AUTOSCHED_R240 AUTOSCHED_R232 ", %116, %117, %118, %119"
#define AUTOSCHED_R248 AUTOSCHED_R240 ", %120, %121, %122, %123"
#define AUTOSCHED_R256 AUTOSCHED_R248 ", %124, %125, %126, %127"
#define AUTOSCHED_D8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define AUTOSCHED_D16 AUTOSCHED_D8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define AUTOSCHED_D24 AUTOSCHED_D16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define AUTOSCHED_D32 AUTOSCHED_D24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define AUTOSCHED_D40 AUTOSCHED_D32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define AUTOSCHED_D48 AUTOSCHED_D40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define AUTOSCHED_D56 AUTOSCHED_D48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define AUTOSCHED_D64 AUTOSCHED_D56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define AUTOSCHED_D72 AUTOSCHED_D64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define AUTOSCHED_D80 AUTOSCHED_D72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define AUTOSCHED_D88 AUTOSCHED_D80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define AUTOSCHED_D96 AUTOSCHED_D88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define AUTOSCHED_D104 AUTOSCHED_D96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define AUTOSCHED_D112 AUTOSCHED_D104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define AUTOSCHED_D120 AUTOSCHED_D112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define AUTOSCHED_D128 AUTOSCHED_D120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define AUTOSCHED_D136 AUTOSCHED_D128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define AUTOSCHED_D144 AUTOSCHED_D136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define AUTOSCHED_D152 AUTOSCHED_D144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define AUTOSCHED_D160 AUTOSCHED_D152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define AUTOSCHED_D168 AUTOSCHED_D160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define AUTOSCHED_D176 AUTOSCHED_D168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define AUTOSCHED_D184 AUTOSCHED_D176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define AUTOSCHED_D192 AUTOSCHED_D184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define AUTOSCHED_D200 AUTOSCHED_D192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define AUTOSCHED_D208 AUTOSCHED_D200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define AUTOSCHED_D216 AUTOSCHED_D208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define AUTOSCHED_D224 AUTOSCHED_D216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define AUTOSCHED_D232 AUTOSCHED_D224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define AUTOSCHED_D240 AUTOSCHED_D232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define AUTOSCHED_D248 AUTOSCHED_D240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define AUTOSCHED_D256 AUTOSCHED_D248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define AUTOSCHED_WGMMA(N, TYPE, NAME, REST, ACCUMULATE)                                                               \
  template <>                                                                                                          \
  struct Wgmma<TYPE, N> {                                                                                              \
    template <int MajorA, int MajorB>                                                                                  \
    __device__ __forceinline__ static void multiply(float (&d)[N / 2], unsigned long long a, unsigned long long b,     \
                                                    int accumulate) {                                                  \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ACCUMULATE ", 0;\n\t"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" AUTOSCHED_R##N "}, " REST        \
                   "\n\t}"                                                                                             \
                   : AUTOSCHED_D##N                                                                                    \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(MajorA), "n"(MajorB)                                         \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };
#define AUTOSCHED_WGMMA_N(N, REST, ACCUMULATE)           \
  AUTOSCHED_WGMMA(N, f16, "f16", REST, ACCUMULATE)       \
  AUTOSCHED_WGMMA(N, bf16, "bf16", REST, ACCUMULATE)

AUTOSCHED_WGMMA_N(8, "%4, %5, p, 1, 1, %7, %8;", "%6")
AUTOSCHED_WGMMA_N(16, "%8, %9, p, 1, 1, %11, %12;", "%10")
AUTOSCHED_WGMMA_N(24, "%12, %13, p, 1, 1, %15, %16;", "%14")
AUTOSCHED_WGMMA_N(32, "%16, %17, p, 1, 1, %19, %20;", "%18")
AUTOSCHED_WGMMA_N(40, "%20, %21, p, 1, 1, %23, %24;", "%22")
AUTOSCHED_WGMMA_N(48, "%24, %25, p, 1, 1, %27, %28;", "%26")
AUTOSCHED_WGMMA_N(56, "%28, %29, p, 1, 1, %31, %32;", "%30")
AUTOSCHED_WGMMA_N(64, "%32, %33, p, 1, 1, %35, %36;", "%34")
AUTOSCHED_WGMMA_N(72, "%36, %37, p, 1, 1, %39, %40;", "%38")
AUTOSCHED_WGMMA_N(80, "%40, %41, p, 1, 1, %43, %44;", "%42")
AUTOSCHED_WGMMA_N(88, "%44, %45, p, 1, 1, %47, %48;", "%46")
AUTOSCHED_WGMMA_N(96, "%48, %49, p, 1, 1, %51, %52;", "%50")
AUTOSCHED_WGMMA_N(104, "%52, %53, p, 1, 1, %55, %56;", "%54")
AUTOSCHED_WGMMA_N(112, "%56, %57, p, 1, 1, %59, %60;", "%58")
AUTOSCHED_WGMMA_N(120, "%60, %61, p, 1, 1, %63, %64;", "%62")
AUTOSCHED_WGMMA_N(128, "%64, %65, p, 1, 1, %67, %68;", "%66")
AUTOSCHED_WGMMA_N(136, "%68, %69, p, 1, 1, %71, %72;", "%70")
AUTOSCHED_WGMMA_N(144, "%72, %73, p, 1, 1, %75, %76;", "%74")
AUTOSCHED_WGMMA_N(152, "%76, %77, p, 1, 1, %79, %80;", "%78")
AUTOSCHED_WGMMA_N(160, "%80, %81, p, 1, 1, %83, %84;", "%82")
AUTOSCHED_WGMMA_N(168, "%84, %85, p, 1, 1, %87, %88;", "%86")
AUTOSCHED_WGMMA_N(176, "%88, %89, p, 1, 1, %91, %92;", "%90")
AUTOSCHED_WGMMA_N(184, "%92, %93, p, 1, 1, %95, %96;", "%94")
AUTOSCHED_WGMMA_N(192, "%96, %97, p, 1, 1, %99, %100;", "%98")
AUTOSCHED_WGMMA_N(200, "%100, %101, p, 1, 1, %103, %104;", "%102")
AUTOSCHED_WGMMA_N(208, "%104, %105, p, 1, 1, %107, %108;", "%106")
AUTOSCHED_WGMMA_N(216, "%108, %109, p, 1, 1, %111, %112;", "%110")
AUTOSCHED_WGMMA_N(224, "%112, %113, p, 1, 1, %115, %116;", "%114")
AUTOSCHED_WGMMA_N(232, "%116, %117, p, 1, 1, %119, %120;", "%118")
AUTOSCHED_WGMMA_N(240, "%120, %121, p, 1, 1, %123, %124;", "%122")
AUTOSCHED_WGMMA_N(248, "%124, %125, p, 1, 1, %127, %128;", "%126")
AUTOSCHED_WGMMA_N(256, "%128, %129, p, 1, 1, %131, %132;", "%130")
// clang-format on

}  // namespace autosched::ptx
