// With BROKEN, one of the reading warps does not join the named barrier.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory(), warp = t / 32;
  if (warp < 2) st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  // Warps 0 and 1 write, and all three warps read. With BROKEN only the writers join barrier 1.
  if (BROKEN) {
    if (warp < 2) barrier_sync(1, 64);
  } else {
    barrier_sync(1, 96);
  }
  st_global(o + t, ld_shared<4>(s + t % 64 * 4u));  // found here
}
