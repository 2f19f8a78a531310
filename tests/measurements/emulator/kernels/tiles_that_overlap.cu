// With BROKEN, two blocks write the same elements.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned i = blockIdx.x * (BROKEN ? 16 : 32) + threadIdx.x;
  st_global(o + i, ld_global_nc<4>(a + i));  // found here
  if (BROKEN && blockIdx.x == 1 && threadIdx.x >= 16) st_global(o + i + 16, packet(0));
}
