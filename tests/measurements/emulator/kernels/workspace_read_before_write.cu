// A workspace that is not zeroed is written and read. With BROKEN it is read without having been written.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, float* w) {
  const unsigned t = threadIdx.x;
  if (!BROKEN) st_global(w + t, ld_global_nc<4>(a + t));
  const auto x = ld_global_cg<4>(w + t);  // found here
  st_global(o + t, x);
}
