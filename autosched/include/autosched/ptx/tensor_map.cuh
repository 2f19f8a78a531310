// cp.async.bulk.tensor: PTX ISA 9.7.9.27. Tiles between global memory, which a tensor map describes, and shared memory.
#pragma once

namespace autosched::ptx {

// What cuTensorMapEncodeTiled fills; a `const __grid_constant__` parameter of a kernel.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// The box at (x, y, z), x along contiguous memory, to shared memory. What lies outside the tensor arrives as zeros, and
// all bytes of the box count at `barrier`.
__device__ __forceinline__ void load_box(unsigned shared, const TensorMap& map, int x, int y, int z,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

}  // namespace autosched::ptx
