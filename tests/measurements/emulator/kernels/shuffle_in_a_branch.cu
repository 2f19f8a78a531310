// A shuffle of the whole warp that half of it executes.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  unsigned x = ld_global_nc<4>(a + t).word[0];
  if (!BROKEN || t < 16) x = shfl_bfly(x, 8);  // found here
  st_global(o + t, AlignedVector<4>{{x}});
}
