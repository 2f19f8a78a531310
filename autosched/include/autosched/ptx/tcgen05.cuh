// tcgen05: PTX ISA 9.7.16. One thread multiplies tiles in shared memory and accumulates in tensor memory, 128 lanes by
// 512 columns per block. Each warp can read a quarter of the lanes. An address is lane << 16 | column.
#pragma once

namespace autosched::ptx {

// Waits until `columns` columns (a power of two, at least 32) are free, allocates them, and writes their address to
// shared memory.
template <int Blocks>
__device__ __forceinline__ void tcgen05_alloc(unsigned shared, unsigned columns) {
  if constexpr (Blocks == 2) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared), "r"(columns) : "memory");
  } else {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared), "r"(columns) : "memory");
  }
}
// Declares that the block allocates no more, so that another block of the SM may allocate.
template <int Blocks>
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit() {
  if constexpr (Blocks == 2) {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  } else {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
}
template <int Blocks>
__device__ __forceinline__ void tcgen05_dealloc(unsigned address, unsigned columns) {
  if constexpr (Blocks == 2) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
  } else {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
  }
}

// Fences before and after a synchronization with other threads that execute tcgen05 instructions.
__device__ __forceinline__ void tcgen05_fence_before_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_fence_after_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Arrives at an mbarrier of this block when all multiplications of this thread are complete. For a pair, arrives at the
// mbarriers at this address in both blocks.
template <int Blocks>
__device__ __forceinline__ void tcgen05_commit(unsigned barrier) {
  if constexpr (Blocks == 2) {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(barrier),
        "h"(static_cast<unsigned short>(3))
        : "memory");
  } else {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
  }
}

// Operand types. f8f6f4 accepts e4m3 or e5m2 for each operand; the last three have block scales
// (tcgen05_block_scale.cuh).
enum class Tcgen05Kind { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

// d += a @ b, or d = a @ b if `accumulate` is 0. a and b are matrix descriptors. One instruction multiplies 32 bytes
// along k. The instruction descriptor contains types and sizes (intrinsics/tcgen05.cuh).
template <Tcgen05Kind Kind, int Blocks>
struct Tcgen05Mma;

template <>
struct Tcgen05Mma<Tcgen05Kind::f16, 1> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::f16, 2> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::tf32, 1> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::tf32, 2> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::2.kind::tf32 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::f8f6f4, 1> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::f8f6f4, 2> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::i8, 1> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};
template <>
struct Tcgen05Mma<Tcgen05Kind::i8, 2> {
  __device__ __forceinline__ static void multiply(unsigned d, unsigned long long a, unsigned long long b,
                                                  unsigned descriptor, int accumulate) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
        "tcgen05.mma.cta_group::2.kind::i8 [%0], %1, %2, %3, p;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(descriptor), "r"(accumulate)
        : "memory");
  }
};

// Loads 16 columns, starting at `address`, of this warp's 32 lanes, one lane per thread. x is valid after
// tcgen05_wait_loads.
__device__ __forceinline__ void tcgen05_load(unsigned (&x)[16], unsigned address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15"
      "}, [%16];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]),
        "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]),
        "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]),
        "=r"(x[12]), "=r"(x[13]), "=r"(x[14]), "=r"(x[15])
      : "r"(address)
      : "memory");
}
// Loads 32 columns, starting at `address`, of this warp's 32 lanes. Each thread gets one lane. The values are valid
// after tcgen05_wait_loads.
__device__ __forceinline__ void tcgen05_load(unsigned (&x)[32], unsigned address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, [%32];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]),
        "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]),
        "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]),
        "=r"(x[12]), "=r"(x[13]), "=r"(x[14]), "=r"(x[15]),
        "=r"(x[16]), "=r"(x[17]), "=r"(x[18]), "=r"(x[19]),
        "=r"(x[20]), "=r"(x[21]), "=r"(x[22]), "=r"(x[23]),
        "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
        "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31])
      : "r"(address)
      : "memory");
}
// Loads 8, 16 or 64 columns of 16 lanes, starting at `address`. The registers have the accumulator layout of mma.m16n8,
// with four registers for 8 columns. x is valid after tcgen05_wait_loads.
__device__ __forceinline__ void tcgen05_load_fragments(unsigned (&x)[4], unsigned address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x256b.x1.b32 {"
      "%0, %1, %2, %3"
      "}, [%4];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
      : "r"(address)
      : "memory");
}
__device__ __forceinline__ void tcgen05_load_fragments(unsigned (&x)[8], unsigned address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x256b.x2.b32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, [%8];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]),
        "=r"(x[7])
      : "r"(address)
      : "memory");
}
__device__ __forceinline__ void tcgen05_load_fragments(unsigned (&x)[32], unsigned address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x256b.x8.b32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19,"
      " %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, [%32];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]),
        "=r"(x[7]), "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]), "=r"(x[12]), "=r"(x[13]),
        "=r"(x[14]), "=r"(x[15]), "=r"(x[16]), "=r"(x[17]), "=r"(x[18]), "=r"(x[19]), "=r"(x[20]),
        "=r"(x[21]), "=r"(x[22]), "=r"(x[23]), "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
        "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31])
      : "r"(address)
      : "memory");
}
// Waits until all loads of this warp are complete.
__device__ __forceinline__ void tcgen05_wait_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

}  // namespace autosched::ptx
