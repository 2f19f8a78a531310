// The last row of a tile is read from shared memory. With BROKEN the row is never stored.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (!BROKEN || t < 24) st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  barrier_sync();
  st_global(o + t, ld_shared<4>(s + (31 - t) * 4u));  // found here
}
