// cp.async: PTX ISA 9.7.9.25. Bytes beyond source_bytes are written as zero.
#pragma once

namespace autosched::ptx {

// Copies 4, 8 or 16 bytes through L1 and L2.
template <int Bytes>
__device__ __forceinline__ void cp_async_ca(unsigned shared, const void* global, int source_bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async moves 4, 8 or 16 bytes");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(Bytes),
               "r"(source_bytes)
               : "memory");
}

// Copies 16 bytes through L2 only.
__device__ __forceinline__ void cp_async_cg(unsigned shared, const void* global, int source_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most Pending of this thread's groups are in flight.
template <int Pending>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace autosched::ptx
