// cp.async.bulk.tensor for a pair of blocks: PTX ISA 9.7.9.27, .cta_group::2.
#pragma once
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched::ptx {

// Like load_box, but the barrier may be in either block of the pair.
__device__ __forceinline__ void load_box_of_pair(unsigned shared, const TensorMap& map, int x, int y, int z,
                                                 unsigned barrier, Evict evict) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(evict)
      : "memory");
}

}  // namespace autosched::ptx
