// ld.global.nc and st.global with eviction priorities: PTX ISA 9.7.9. Hints do not affect values: ld_global_nc and
// st_global load and store the same values.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// There is one function per hint, because the hint is part of the instruction's name.
#define AUTOSCHED_LD_GLOBAL_NC(NAME, HINT)                                                                        \
  template <int Bytes>                                                                                            \
  __device__ __forceinline__ AlignedVector<Bytes> NAME(const void* address) {                                            \
    AlignedVector<Bytes> p;                                                                                              \
    if constexpr (Bytes == 16) {                                                                                  \
      asm volatile("ld.global.nc" HINT ".v4.b32 {%0, %1, %2, %3}, [%4];"                                          \
                   : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])                           \
                   : "l"(address));                                                                               \
    } else if constexpr (Bytes == 8) {                                                                            \
      asm volatile("ld.global.nc" HINT ".v2.b32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "l"(address)); \
    } else if constexpr (Bytes == 4) {                                                                            \
      asm volatile("ld.global.nc" HINT ".b32 %0, [%1];" : "=r"(p.word[0]) : "l"(address));                        \
    } else if constexpr (Bytes == 2) {                                                                            \
      asm volatile("ld.global.nc" HINT ".b16 %0, [%1];" : "=h"(p.half) : "l"(address));                           \
    } else {                                                                                                      \
      unsigned value;                                                                                             \
      asm volatile("ld.global.nc" HINT ".u8 %0, [%1];" : "=r"(value) : "l"(address));                             \
      p.byte = static_cast<unsigned char>(value);                                                                 \
    }                                                                                                             \
    return p;                                                                                                     \
  }
// For data that is read once: L1 does not store it.
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_no_allocate, ".L1::no_allocate")
// First to be evicted from L1.
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_evict_first, ".L1::evict_first")
// L1 does not store the data; a miss loads 256 bytes into L2.
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_no_allocate_l2_256b, ".L1::no_allocate.L2::256B")
#undef AUTOSCHED_LD_GLOBAL_NC

// For data that is written once and not read soon: first to be evicted (st.global.cs).
template <int Bytes>
__device__ __forceinline__ void st_global_cs(void* address, const AlignedVector<Bytes>& p) {
  if constexpr (Bytes == 16) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(p.word[0]), "r"(p.word[1]),
                 "r"(p.word[2]), "r"(p.word[3])
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(p.word[0]), "r"(p.word[1]) : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(address), "r"(p.word[0]) : "memory");
  } else if constexpr (Bytes == 2) {
    asm volatile("st.global.cs.b16 [%0], %1;" ::"l"(address), "h"(p.half) : "memory");
  } else {
    asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(address), "r"(static_cast<unsigned>(p.byte)) : "memory");
  }
}

}  // namespace autosched::ptx
