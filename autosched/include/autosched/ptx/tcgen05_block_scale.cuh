// tcgen05.mma with block scales, and copies of scales to tensor memory: PTX ISA 9.7.16.
#pragma once
#include <autosched/ptx/tcgen05.cuh>

namespace autosched::ptx {

// d += (a * scales) @ (b * scales). The scales of a and b are in tensor memory; the instruction descriptor selects
// which bytes of a word are used. For each row and every 32 bytes along k, mxf8f6f4 has one scale, mxf4 has two, and
// mxf4nvf4 has four.
#define AUTOSCHED_TCGEN05_BLOCK_SCALED(KIND, BLOCKS, SCALES)                                                                  \
  template <>                                                                                                                \
  struct Tcgen05Mma<Tcgen05Kind::KIND, BLOCKS> {                                                                             \
    __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,                  \
                                                    unsigned descriptor, unsigned scales_a, unsigned scales_b,               \
                                                    int accumulate) {                                                        \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %6, 0;\n\t"                                                         \
                   "tcgen05.mma.cta_group::" #BLOCKS ".kind::" #KIND ".block_scale.scale_vec::" #SCALES                      \
                   "X [%0], %1, %2, %3, [%4], [%5], p;\n\t}" ::"r"(d),                                                       \
                   "l"(a), "l"(b), "r"(descriptor), "r"(scales_a), "r"(scales_b), "r"(accumulate)                            \
                   : "memory");                                                                                              \
    }                                                                                                                        \
  };
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf8f6f4, 1, 1)
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf8f6f4, 2, 1)
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf4, 1, 2)
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf4, 2, 2)
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf4nvf4, 1, 4)
AUTOSCHED_TCGEN05_BLOCK_SCALED(mxf4nvf4, 2, 4)
#undef AUTOSCHED_TCGEN05_BLOCK_SCALED

// Copies 128 lines of four scales to four columns of tensor memory: line l goes to column l / 32, lane l % 32 of each
// quarter of the lanes. A matrix descriptor gives the 512 bytes in shared memory. In a pair, each block copies from its
// own shared memory. The copy is ordered before later multiplications of this thread.
template <int Blocks>
__device__ __forceinline__ void tcgen05_copy_scales(unsigned address, unsigned long long scales) {
  if constexpr (Blocks == 2) {
    asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(address), "l"(scales) : "memory");
  } else {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(address), "l"(scales) : "memory");
  }
}

}  // namespace autosched::ptx
