// With BROKEN, one lane of a warp skips a barrier.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  if (!BROKEN || t != 40) barrier_sync();  // found here
  st_global(o + t, ld_global_nc<4>(a + t));
}
