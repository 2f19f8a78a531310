// With BROKEN, the kernel writes its input array.
#include "common.cuh"

extern "C" __global__ void kernel(float* a, float* o) {
  const unsigned t = threadIdx.x;
  const auto x = ld_global_nc<4>(a + t);
  st_global(o + t, x);
  if (BROKEN) st_global(a + t, x);  // found here
}
