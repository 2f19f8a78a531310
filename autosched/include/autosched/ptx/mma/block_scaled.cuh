// mma.sync with block scales: PTX ISA 9.7.14.3, sm_120a. d += (a * scales) * (b * scales). Fragments have the layout of
// m16n8k32 with 8 bits, with two e2m1 per byte. Scales are taken from some lanes:
// - The scales of a for row lane / 4 + 8 (lane % 2) come from the lanes with lane % 4 / 2 == LanesA.
// - The scales of b for column lane / 4 come from the lanes with lane % 4 == LanesB.
// scale_vec determines how many of the lowest bytes are used.
#pragma once

namespace autosched::ptx {

#define AUTOSCHED_MMA_BLOCK_SCALED(NAME, SHAPE, KIND, TYPES)                                                                \
  template <int LanesA, int LanesB>                                                                                        \
  __device__ __forceinline__ void NAME(float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2], unsigned scales_a,      \
                                       unsigned scales_b) {                                                                \
    asm volatile("mma.sync.aligned." SHAPE ".row.col." KIND "." TYPES                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {0, %12}, %11, {0, %13};"          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a), "r"(scales_b),         \
                   "n"(LanesA), "n"(LanesB));                                                                              \
  }
AUTOSCHED_MMA_BLOCK_SCALED(mma_m16n8k32_mxf8, "m16n8k32", "kind::mxf8f6f4.block_scale.scale_vec::1X", "f32.e4m3.e4m3.f32.ue8m0")
AUTOSCHED_MMA_BLOCK_SCALED(mma_m16n8k32_mxf8_e5m2, "m16n8k32", "kind::mxf8f6f4.block_scale.scale_vec::1X",
                           "f32.e5m2.e5m2.f32.ue8m0")
AUTOSCHED_MMA_BLOCK_SCALED(mma_m16n8k64_mxf4, "m16n8k64", "kind::mxf4nvf4.block_scale.scale_vec::2X", "f32.e2m1.e2m1.f32.ue8m0")
AUTOSCHED_MMA_BLOCK_SCALED(mma_m16n8k64_nvf4, "m16n8k64", "kind::mxf4nvf4.block_scale.scale_vec::4X", "f32.e2m1.e2m1.f32.ue4m3")
#undef AUTOSCHED_MMA_BLOCK_SCALED

}  // namespace autosched::ptx
