// mbarrier: PTX ISA 9.7.13.15. Addresses are those of 8 bytes in this block's shared memory.
#pragma once

namespace autosched::ptx {

// A phase ends with `arrivals` arrivals, once all bytes that they expect have come.
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Orders this thread's mbarrier_init before what other threads and the asynchronous proxy do with the barrier.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at a barrier of any block of the cluster; `barrier` is a result of address_in. No .release.cluster, which ptxas turns
// into a fence of the whole GPU: this orders no writes to other blocks, but signals that multiplications and loads that have
// been waited for have read their operands. CUTLASS's ClusterBarrier also arrives in this form.
__device__ __forceinline__ void mbarrier_arrive_in_cluster(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival that expects `bytes` more in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// True if the phase of this parity has completed; may wait for it for a limited time. Also for barriers at which other
// blocks of the cluster arrive: with .acquire.cluster ptxas would invalidate all of L1 after each wait.
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
