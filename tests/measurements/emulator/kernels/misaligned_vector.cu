// With BROKEN, pairs of floats are loaded from an odd index.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const int i = int(threadIdx.x) * 2;
  const auto x = ld_global_nc<8>(a + i + (BROKEN ? 1 : 2));  // found here
  st_global(o + i, x);
}
