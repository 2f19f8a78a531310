// With BROKEN, the kernel loops for ever without accessing memory.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  st_global(o + t, ld_global_nc<4>(a + t));  // found here
  while (BROKEN) {
  }
}
