// setmaxnreg: PTX ISA 9.7.19.5. All warps of a warpgroup call it; Registers is a multiple of 8 from 24 to 256.
#pragma once

namespace autosched::ptx {

template <int Registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Increases the number of registers. Waits until the block has enough free registers.
template <int Registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace autosched::ptx
