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

// Returns a constant in a register, for instructions with two constants, of which only one can be part of the
// instruction. ptxas (CUDA 13.5) moves a constant that it knows to a register before each use in a loop. It does not
// know that the index of a thread is below 1024.
template <unsigned Constant>
__device__ __forceinline__ unsigned in_register() {
  unsigned thread;
  asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (thread >> 10) + Constant;
}

}  // namespace autosched::ptx
