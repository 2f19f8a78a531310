// wgmma: PTX ISA 9.7.15. A warpgroup of four warps multiplies tiles in shared memory asynchronously.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/wgmma/registers.cuh>

namespace autosched::ptx {

// Orders the warp's accesses to accumulators and shared memory before the multiplications that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most Pending of the warp's groups are in flight.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Prevents the compiler from moving uses of an accumulator across this point. The compiler does not know that
// accumulators only become valid after a wait, and that writes before a fence must stay before it.
__device__ __forceinline__ void hold_register(float& x) { asm volatile("" : "+f"(x)); }
__device__ __forceinline__ void hold_register(int& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void hold_register(unsigned& x) { asm volatile("" : "+r"(x)); }

// Copies a register of operand a for one multiplication. The copy is necessary if several iterations multiply the same
// a: ptxas of CUDA 12.8 to 13.0 overwrites such registers with operand a of another product. The copy is a permutation
// of bytes, because ptxas would eliminate a move. From CUDA 13.5 on, machine code keeps the registers
// (test_wgmma_operands.py), and no copy is needed.
__device__ __forceinline__ unsigned copy_for_one(unsigned& x) {
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1305
  hold_register(x);
  return x;
#else
  unsigned copy;
  asm volatile("prmt.b32 %0, %1, %1, 0x3210;" : "=r"(copy) : "r"(x));
  return copy;
#endif
}

// d += a @ b, or d = a @ b if `accumulate` is 0. d has 64 x N elements. Accumulator register r of a thread is in
// - row lane / 4 + 16 * warp, plus 8 if r % 4 is 2 or 3,
// - and column 2 * (lane % 4) + 8 * (r / 4), plus 1 if r is odd.
// Matrix descriptors give a (64 x k) and b (k x N), where k is 32 bytes. MajorA and MajorB are 1 if the tile is
// contiguous along m or n, 0 if it is contiguous along k. This file is for 16-bit types with f32 sums.
// ptx/wgmma/along_k.cuh is for other types. ptx/wgmma/in_f16.cuh is for sums in f16 (InF16).
template <class T, int N, bool InF16 = false>
struct Wgmma;

// Products whose operand a is in registers are in ptx/wgmma/of_registers.cuh.
template <class T, int N, bool InF16 = false>
struct WgmmaOfRegisters;

// clang-format off
#define AUTOSCHED_WGMMA(N, TYPE, NAME, OPERANDS, ACCUMULATE, MAJORS)                                                   \
  template <>                                                                                                          \
  struct Wgmma<TYPE, N> {                                                                                              \
    template <int MajorA, int MajorB>                                                                                  \
    __device__ __forceinline__ static void multiply(float (&d)[N / 2], unsigned long long a, unsigned long long b,     \
                                                    int accumulate) {                                                  \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ACCUMULATE ", 0;\n\t"                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" AUTOSCHED_R##N "}, " OPERANDS   \
                   ", 1, 1, " MAJORS ";\n\t}"                                                                          \
                   : AUTOSCHED_D##N("f")                                                                               \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(MajorA), "n"(MajorB)                                         \
                   : "memory");                                                                                        \
    }                                                                                                                  \
  };
#define AUTOSCHED_WGMMA_N(N, OPERANDS, ACCUMULATE, MAJORS)           \
  AUTOSCHED_WGMMA(N, f16, "f16", OPERANDS, ACCUMULATE, MAJORS)       \
  AUTOSCHED_WGMMA(N, bf16, "bf16", OPERANDS, ACCUMULATE, MAJORS)

AUTOSCHED_WGMMA_EVERY_TYPE(AUTOSCHED_WGMMA_N)
AUTOSCHED_WGMMA_FLOATS_ALONE(AUTOSCHED_WGMMA_N)
// clang-format on

}  // namespace autosched::ptx
