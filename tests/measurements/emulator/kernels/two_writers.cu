// With BROKEN, two warps write the same word.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  const unsigned at = BROKEN ? t % 32 : t;
  st_shared(s + at * 4u, ld_global_nc<4>(a + t));  // found here
  barrier_sync();
  st_global(o + t, ld_shared<4>(s + at * 4u));
}
