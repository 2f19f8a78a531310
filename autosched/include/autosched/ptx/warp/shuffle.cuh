// shfl.sync over the whole warp: PTX ISA 9.7.9.6.
#pragma once

namespace autosched::ptx {

__device__ __forceinline__ unsigned shfl_bfly(unsigned value, int lane_mask) {
  unsigned out;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(out) : "r"(value), "r"(lane_mask));
  return out;
}
__device__ __forceinline__ unsigned shfl_down(unsigned value, int delta) {
  unsigned out;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(out) : "r"(value), "r"(delta));
  return out;
}
__device__ __forceinline__ unsigned shfl_idx(unsigned value, int lane) {
  unsigned out;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(out) : "r"(value), "r"(lane));
  return out;
}

}  // namespace autosched::ptx
