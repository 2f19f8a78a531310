// With BROKEN, a plain pointer far beyond its array is dereferenced.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  const float x = float_of(ld_global_nc<4>(a + t).word[0]);
  const float y = BROKEN ? *static_cast<const volatile float*>(a + 100000) : 0.0f;  // found here
  st_global(o + t, packet(x + y));
}
