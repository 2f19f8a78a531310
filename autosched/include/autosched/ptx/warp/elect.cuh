// elect.sync: PTX ISA 9.7.13.
#pragma once

namespace autosched::ptx {

// Returns true in one lane of the warp, which is always the same lane. All lanes must call it. Unlike a comparison with
// threadIdx, it lets ptxas know that a single thread continues, so that a TMA instruction needs no loop over lanes.
__device__ __forceinline__ bool elect() {
  unsigned elected;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "elect.sync _|p, 0xffffffff;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t"
      "}"
      : "=r"(elected)::"memory");
  return elected != 0;
}

}  // namespace autosched::ptx
