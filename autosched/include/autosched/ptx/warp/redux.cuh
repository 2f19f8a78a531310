// redux.sync over the whole warp: PTX ISA 9.7.9.8.
#pragma once

namespace autosched::ptx {

__device__ __forceinline__ unsigned redux_or(unsigned value) {
  unsigned out;
  asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(out) : "r"(value));
  return out;
}

}  // namespace autosched::ptx
