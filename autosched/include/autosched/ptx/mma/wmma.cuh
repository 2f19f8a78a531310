// wmma.load / wmma.mma / wmma.store: PTX ISA 9.7.14.4. The mapping of elements to threads is unspecified, so fragments
// are only meaningful for these functions and for element-wise operations. Strides count elements; addresses are
// shared-window addresses aligned to 32 bytes.
#pragma once

namespace autosched::ptx {

enum class Major { row, col };

// One function per (operand, type): the storage order is part of the instruction's name.
#define AUTOSCHED_WMMA_LOAD_8(NAME, OPERAND, SHAPE, TYPE)                                                            \
  template <Major Order>                                                                                            \
  __device__ __forceinline__ void NAME(unsigned (&r)[8], unsigned address, unsigned stride) {                       \
    if constexpr (Order == Major::row) {                                                                            \
      asm volatile("wmma.load." OPERAND ".sync.aligned.row." SHAPE ".shared." TYPE                                  \
                   " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                                                    \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) \
                   : "r"(address), "r"(stride)                                                                      \
                   : "memory");                                                                                     \
    } else {                                                                                                        \
      asm volatile("wmma.load." OPERAND ".sync.aligned.col." SHAPE ".shared." TYPE                                  \
                   " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                                                    \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) \
                   : "r"(address), "r"(stride)                                                                      \
                   : "memory");                                                                                     \
    }                                                                                                               \
  }
#define AUTOSCHED_WMMA_LOAD_4(NAME, OPERAND, SHAPE, TYPE)                                            \
  template <Major Order>                                                                            \
  __device__ __forceinline__ void NAME(unsigned (&r)[4], unsigned address, unsigned stride) {       \
    if constexpr (Order == Major::row) {                                                            \
      asm volatile("wmma.load." OPERAND ".sync.aligned.row." SHAPE ".shared." TYPE                  \
                   " {%0, %1, %2, %3}, [%4], %5;"                                                    \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                 \
                   : "r"(address), "r"(stride)                                                      \
                   : "memory");                                                                     \
    } else {                                                                                        \
      asm volatile("wmma.load." OPERAND ".sync.aligned.col." SHAPE ".shared." TYPE                  \
                   " {%0, %1, %2, %3}, [%4], %5;"                                                    \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                 \
                   : "r"(address), "r"(stride)                                                      \
                   : "memory");                                                                     \
    }                                                                                               \
  }
AUTOSCHED_WMMA_LOAD_8(wmma_load_a_m16n16k16_f16, "a", "m16n16k16", "f16")
AUTOSCHED_WMMA_LOAD_8(wmma_load_b_m16n16k16_f16, "b", "m16n16k16", "f16")
AUTOSCHED_WMMA_LOAD_4(wmma_load_a_m16n16k16_bf16, "a", "m16n16k16", "bf16")
AUTOSCHED_WMMA_LOAD_4(wmma_load_b_m16n16k16_bf16, "b", "m16n16k16", "bf16")
AUTOSCHED_WMMA_LOAD_4(wmma_load_a_m16n16k8_tf32, "a", "m16n16k8", "tf32")
AUTOSCHED_WMMA_LOAD_4(wmma_load_b_m16n16k8_tf32, "b", "m16n16k8", "tf32")
#undef AUTOSCHED_WMMA_LOAD_8
#undef AUTOSCHED_WMMA_LOAD_4

#define AUTOSCHED_WMMA_MMA_8(ORDERS, TYPES)                                                                  \
  asm volatile("wmma.mma.sync.aligned." ORDERS "." TYPES                                                          \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, "                       \
               "{%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};"                       \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),          \
                 "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]))
#define AUTOSCHED_WMMA_MMA_4(ORDERS, TYPES)                                                                \
  asm volatile("wmma.mma.sync.aligned." ORDERS "." TYPES                                                        \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, "                   \
               "{%0, %1, %2, %3, %4, %5, %6, %7};"                                                               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]))
#define AUTOSCHED_WMMA_MMA(NAME, BODY, REGISTERS, SHAPE, TYPES)                                                       \
  template <Major A, Major B>                                                                                        \
  __device__ __forceinline__ void NAME(float (&d)[8], const unsigned (&a)[REGISTERS], const unsigned (&b)[REGISTERS]) { \
    if constexpr (A == Major::row && B == Major::row) {                                                              \
      BODY("row.row." SHAPE, TYPES);                                                                           \
    } else if constexpr (A == Major::row) {                                                                          \
      BODY("row.col." SHAPE, TYPES);                                                                           \
    } else if constexpr (B == Major::row) {                                                                          \
      BODY("col.row." SHAPE, TYPES);                                                                           \
    } else {                                                                                                         \
      BODY("col.col." SHAPE, TYPES);                                                                           \
    }                                                                                                                \
  }
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k16_f16, AUTOSCHED_WMMA_MMA_8, 8, "m16n16k16", "f32.f32")
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k16_bf16, AUTOSCHED_WMMA_MMA_4, 4, "m16n16k16", "f32.bf16.bf16.f32")
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k8_tf32, AUTOSCHED_WMMA_MMA_4, 4, "m16n16k8", "f32.tf32.tf32.f32")
#undef AUTOSCHED_WMMA_MMA
#undef AUTOSCHED_WMMA_MMA_8
#undef AUTOSCHED_WMMA_MMA_4

// Row-major store of the 16x16 f32 accumulator.
__device__ __forceinline__ void wmma_store_d_m16n16k16_f32(unsigned address, const float (&d)[8], unsigned stride) {
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(
                   address),
               "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(stride)
               : "memory");
}
__device__ __forceinline__ void wmma_store_d_m16n16k8_f32(unsigned address, const float (&d)[8], unsigned stride) {
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k8.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(
                   address),
               "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(stride)
               : "memory");
}

}  // namespace autosched::ptx
