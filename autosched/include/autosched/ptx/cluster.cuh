// Clusters, whose blocks can access each other's shared memory: mapa and barrier.cluster, PTX ISA 9.7.9.24 and
// 9.7.13.4.
#pragma once

namespace autosched::ptx {

// The shared::cluster address, in the block of this rank, that corresponds to `address` in this block's shared memory.
__device__ __forceinline__ unsigned address_in(unsigned address, int rank) {
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

// Barrier of all threads of the cluster. Lanes of a warp arrive separately. Writes before an arrival are visible to
// blocks that have waited. If the arrival is relaxed, only writes that a fence has published are visible.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Writes a word to shared memory of a block of the cluster, and counts 4 bytes at the mbarrier there. Both
// addresses are results of address_in. A thread that waits for the mbarrier's phase sees the word (PTX ISA 9.7.9.12).
__device__ __forceinline__ void st_async(unsigned address, unsigned word, unsigned barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
               "r"(word), "r"(barrier)
               : "memory");
}

}  // namespace autosched::ptx
