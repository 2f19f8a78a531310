// %tid: PTX ISA 10, "Special Registers".
#pragma once

namespace autosched::ptx {

// The index of the thread. The compiler assumes a new value in each call, so it does not keep derived values in
// registers.
__device__ __forceinline__ unsigned thread_anew() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

}  // namespace autosched::ptx
