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

// Returns a constant in a register, for instructions with two constant operands: only one of them can be an immediate.
// If ptxas (CUDA 13.5) knows the constant, it moves the constant to a register before each use in a loop. So the
// constant is computed from the thread's index in a way that hides it: ptxas does not know that indices are below 1024.
template <unsigned Constant>
__device__ __forceinline__ unsigned in_register() {
  unsigned thread;
  asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (thread >> 10) + Constant;
}

}  // namespace autosched::ptx
