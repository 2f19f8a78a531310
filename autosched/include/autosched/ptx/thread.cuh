// %tid: PTX ISA 10, "Special Registers".
#pragma once

namespace autosched::ptx {

// The index of the thread. The compiler assumes that each call returns a new value, so it does not keep values derived
// from it in registers.
__device__ __forceinline__ unsigned thread_anew() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Returns a constant in a register, for instructions with two constant operands, of which only one can be an immediate.
// If ptxas (CUDA 13.5) knows the constant, it moves it to a register before each use in a loop. So the constant is
// computed from the thread's index, which is always below 1024, but ptxas does not know this.
template <unsigned Constant>
__device__ __forceinline__ unsigned in_register() {
  unsigned thread;
  asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (thread >> 10) + Constant;
}

}  // namespace autosched::ptx
