// With BROKEN, half of the warp executes a full-warp shuffle while the other half waits at the next shuffle.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  unsigned x = ld_global_nc<4>(a + t).word[0];
  if (!BROKEN || t < 16) x = shfl_bfly(x, 8);  // found here
  if (!BROKEN || t < 32) x = shfl_down(x, 1);
  st_global(o + t, AlignedVector<4>{{x}});
}
