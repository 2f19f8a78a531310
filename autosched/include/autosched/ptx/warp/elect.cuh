// elect.sync: PTX ISA 9.7.13.
#pragma once

namespace autosched::ptx {

// True for one lane of a warp, whose lanes must all ask: the same one each time. Unlike a comparison with threadIdx, it
// lets ptxas know that a single thread continues, so that it emits a TMA instruction without a loop over the lanes.
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
