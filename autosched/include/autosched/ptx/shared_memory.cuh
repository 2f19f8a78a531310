// ld.shared / st.shared: PTX ISA 9.7.9. Addresses are 32-bit offsets in the shared window.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// Address of the dynamic shared memory of this block, aligned to 1024 bytes (the largest swizzle atom).
__device__ __forceinline__ unsigned shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return static_cast<unsigned>(__cvta_generic_to_shared(dynamic_shared_memory));
}

template <int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> ld_shared(unsigned address) {
  AlignedVector<Bytes> p;
  if constexpr (Bytes == 16) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])
                 : "r"(address)
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "r"(address) : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(p.word[0]) : "r"(address) : "memory");
  } else if constexpr (Bytes == 2) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(p.half) : "r"(address) : "memory");
  } else {
    unsigned value;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    p.byte = static_cast<unsigned char>(value);
  }
  return p;
}

template <int Bytes>
__device__ __forceinline__ void st_shared(unsigned address, const AlignedVector<Bytes>& p) {
  if constexpr (Bytes == 16) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(p.word[0]), "r"(p.word[1]),
                 "r"(p.word[2]), "r"(p.word[3])
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(p.word[0]), "r"(p.word[1]) : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(p.word[0]) : "memory");
  } else if constexpr (Bytes == 2) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(p.half) : "memory");
  } else {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(static_cast<unsigned>(p.byte)) : "memory");
  }
}

}  // namespace autosched::ptx
