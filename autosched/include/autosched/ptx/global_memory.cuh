// ld.global / st.global / atom / fence: PTX ISA 9.7.9 and 9.7.13.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// Loads read-only data (ld.global.nc), which must not be written while the kernel runs.
template <int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> ld_global_nc(const void* address) {
  AlignedVector<Bytes> p;
  if constexpr (Bytes == 16) {
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])
                 : "l"(address));
  } else if constexpr (Bytes == 8) {
    asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "l"(address));
  } else if constexpr (Bytes == 4) {
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(p.word[0]) : "l"(address));
  } else if constexpr (Bytes == 2) {
    asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(p.half) : "l"(address));
  } else {
    unsigned value;
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(value) : "l"(address));
    p.byte = static_cast<unsigned char>(value);
  }
  return p;
}

// Loads data that the block itself may write.
template <int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> ld_global(const void* address) {
  AlignedVector<Bytes> p;
  if constexpr (Bytes == 16) {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])
                 : "l"(address) : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "l"(address) : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(p.word[0]) : "l"(address) : "memory");
  } else if constexpr (Bytes == 2) {
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(p.half) : "l"(address) : "memory");
  } else {
    unsigned value;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    p.byte = static_cast<unsigned char>(value);
  }
  return p;
}

// Loads from L2, which all SMs share (ld.global.cg). This is needed for data that another block has written.
template <int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> ld_global_cg(const void* address) {
  AlignedVector<Bytes> p;
  if constexpr (Bytes == 16) {
    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])
                 : "l"(address)
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("ld.global.cg.v2.b32 {%0, %1}, [%2];"
                 : "=r"(p.word[0]), "=r"(p.word[1])
                 : "l"(address)
                 : "memory");
  } else {
    static_assert(Bytes == 4, "ld.global.cg is used for 4, 8 and 16 bytes");
    asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(p.word[0]) : "l"(address) : "memory");
  }
  return p;
}

template <int Bytes>
__device__ __forceinline__ void st_global(void* address, const AlignedVector<Bytes>& p) {
  if constexpr (Bytes == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(p.word[0]), "r"(p.word[1]),
                 "r"(p.word[2]), "r"(p.word[3])
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(p.word[0]), "r"(p.word[1]) : "memory");
  } else if constexpr (Bytes == 4) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(p.word[0]) : "memory");
  } else if constexpr (Bytes == 2) {
    asm volatile("st.global.b16 [%0], %1;" ::"l"(address), "h"(p.half) : "memory");
  } else {
    asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(static_cast<unsigned>(p.byte)) : "memory");
  }
}

// Atomic operations without a result, in any order (red.global).
__device__ __forceinline__ void reduce_add(float* address, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
__device__ __forceinline__ void reduce_add(int* address, int value) {
  asm volatile("red.global.add.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_max(int* address, int value) {
  asm volatile("red.global.max.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_min(int* address, int value) {
  asm volatile("red.global.min.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_max_unsigned(int* address, int value) {
  asm volatile("red.global.max.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_min_unsigned(int* address, int value) {
  asm volatile("red.global.min.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_assign(float* address, float value) {
  unsigned old;
  asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(__float_as_uint(value)) : "memory");
}
__device__ __forceinline__ void reduce_assign(int* address, int value) {
  int old;
  asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_and(int* address, int value) {
  asm volatile("red.global.and.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_or(int* address, int value) {
  asm volatile("red.global.or.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void reduce_xor(int* address, int value) {
  asm volatile("red.global.xor.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
// Atomic operations that return the previous value (atom.global).
__device__ __forceinline__ float fetch_add(float* address, float value) {
  float old;
  asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(old) : "l"(address), "f"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_add(int* address, int value) {
  int old;
  asm volatile("atom.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_max(int* address, int value) {
  int old;
  asm volatile("atom.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_min(int* address, int value) {
  int old;
  asm volatile("atom.global.min.s32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_max_unsigned(int* address, int value) {
  int old;
  asm volatile("atom.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_min_unsigned(int* address, int value) {
  int old;
  asm volatile("atom.global.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_and(int* address, int value) {
  int old;
  asm volatile("atom.global.and.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_or(int* address, int value) {
  int old;
  asm volatile("atom.global.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_xor(int* address, int value) {
  int old;
  asm volatile("atom.global.xor.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ int fetch_assign(int* address, int value) {
  int old;
  asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}
__device__ __forceinline__ float fetch_assign(float* address, float value) {
  unsigned old;
  asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(__float_as_uint(value)) : "memory");
  return __uint_as_float(old);
}
// Atomic additions of one 16-bit element, or of two adjacent elements in a word; bf16 requires sm_90.
__device__ __forceinline__ void reduce_add_f16(void* address, unsigned short value) {
  asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}
__device__ __forceinline__ void reduce_add_f16x2(void* address, unsigned values) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(address), "r"(values) : "memory");
}
__device__ __forceinline__ void reduce_add_bf16(void* address, unsigned short value) {
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}
__device__ __forceinline__ void reduce_add_bf16x2(void* address, unsigned values) {
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(address), "r"(values) : "memory");
}
// Replaces the value by `to` if it equals `from`. Returns the previous value in both cases.
__device__ __forceinline__ unsigned short compare_and_swap(unsigned short* address, unsigned short from,
                                                           unsigned short to) {
  unsigned short old;
  asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;" : "=h"(old) : "l"(address), "h"(from), "h"(to) : "memory");
  return old;
}
__device__ __forceinline__ unsigned compare_and_swap(unsigned* address, unsigned from, unsigned to) {
  unsigned old;
  asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(address), "r"(from), "r"(to) : "memory");
  return old;
}
__device__ __forceinline__ unsigned short ld_relaxed(const unsigned short* address) {
  unsigned short value;
  asm volatile("ld.relaxed.gpu.global.b16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ unsigned ld_relaxed(const unsigned* address) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Prefetches a line to L1 or L2 (prefetch.global).
__device__ __forceinline__ void prefetch_l1(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}
__device__ __forceinline__ void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

__device__ __forceinline__ unsigned atomic_add(unsigned* address, unsigned value) {
  unsigned old;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}

// Reads a flag. If its writer first stored data, then executed a fence, and then stored the flag, this thread sees the
// data afterwards.
__device__ __forceinline__ unsigned ld_acquire(const unsigned* address) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Orders this thread's earlier writes before later ones, for every thread of the device (__threadfence).
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace autosched::ptx
