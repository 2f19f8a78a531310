// %tid: PTX ISA 10, "Special Registers".
#pragma once

namespace autosched::ptx {

// The index of the thread, which the compiler takes for another one each time: it does not keep what follows from it.
__device__ __forceinline__ unsigned thread_anew() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

}  // namespace autosched::ptx
