// bar.sync / bar.arrive / bar.warp.sync: PTX ISA 9.7.13.
#pragma once

namespace autosched::ptx {

// All threads of the block (bar.sync 0).
__device__ __forceinline__ void barrier_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// A named barrier (id 1 to 15) of `threads` threads, a multiple of 32.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

}  // namespace autosched::ptx
