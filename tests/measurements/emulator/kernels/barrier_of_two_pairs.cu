// Warps 0 and 1 meet at a barrier, as do warps 2 and 3. With BROKEN all use one barrier, so any two of the four
// warps may meet.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, pair = t / 64;
  barrier_sync(BROKEN ? 1 : 1 + pair, 64);  // found here
  st_global(o + t, ld_global_nc<4>(a + t));
}
