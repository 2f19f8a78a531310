// cp.async.bulk.tensor: PTX ISA 9.7.9.27. Copies tiles between global memory, described by a tensor map, and shared
// memory.
#pragma once

namespace autosched::ptx {

// A tensor map, encoded by cuTensorMapEncodeTiled; a `const __grid_constant__` parameter of a kernel.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// L2 eviction priorities of loaded data. The values are policies as encoded by createpolicy.fractional with fraction 1
// (PTX ISA 9.7.9.18).
enum class Evict : unsigned long long {
  normally = 0x1000000000000000ull,
  first = 0x12F0000000000000ull,
  last = 0x14F0000000000000ull
};

// Loads the box at (x, y, z), where x is contiguous, to shared memory. Elements outside the tensor are zero, and
// `barrier` counts all bytes of the box.
__device__ __forceinline__ void load_box(unsigned shared, const TensorMap& map, int x, int y, int z, unsigned barrier,
                                         Evict evict) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(evict)
      : "memory");
}

// Multicasts the box to each block of the cluster whose bit in `blocks` is set. The box is written to the same address
// in each block's shared memory, and each block's own barrier counts its bytes.
__device__ __forceinline__ void load_box_for(unsigned short blocks, unsigned shared, const TensorMap& map, int x, int y,
                                             int z, unsigned barrier, Evict evict) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks), "l"(evict)
      : "memory");
}

// Stores the box in shared memory to (x, y, z), without elements outside the tensor.
__device__ __forceinline__ void store_box(const TensorMap& map, int x, int y, int z, unsigned shared) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z), "r"(shared)
               : "memory");
}

// Commits, as one group, this thread's stores since the last call.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the last `Pending` of this thread's groups of stores have read shared memory.
template <int Pending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Makes this thread's writes to shared memory visible to later bulk copies and multiplications. Also orders this
// thread's earlier reads before the writes of later bulk copies. On an H100 without this fence, such writes overtook
// the reads, although the thread arrived at an mbarrier after its reads.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Prefetches the tensor map.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace autosched::ptx
