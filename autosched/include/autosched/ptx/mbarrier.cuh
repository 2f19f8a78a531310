// mbarrier: PTX ISA 9.7.13.15. Functions take the address of a barrier's 8 bytes in this block's shared memory.
#pragma once

namespace autosched::ptx {

// A phase ends when there have been `arrivals` arrivals and all expected bytes have been written.
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Orders this thread's mbarrier_init before uses of the barrier by other threads and the asynchronous proxy.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at a barrier of any block of the cluster; `barrier` is a result of address_in. The instruction has no
// .release.cluster, because ptxas would generate a GPU-wide fence for it. So the arrival does not order writes to other
// blocks. It only signals that completed multiplications and loads have read their operands. CUTLASS's ClusterBarrier
// uses the same instruction.
__device__ __forceinline__ void mbarrier_arrive_in_cluster(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and increases the number of bytes that this phase expects.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns true if the phase of this parity has completed. May wait for a limited time. The instruction does not use
// .acquire.cluster, not even for barriers at which other blocks of the cluster arrive: with .acquire.cluster, ptxas
// would invalidate L1 after each wait.
__device__ __forceinline__ bool mbarrier_try_wait(unsigned barrier, unsigned parity) {
  unsigned ended;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t"
      "}"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}

}  // namespace autosched::ptx
