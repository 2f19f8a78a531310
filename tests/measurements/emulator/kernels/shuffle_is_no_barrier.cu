// A shuffle does not order memory accesses. With BROKEN, it is the only synchronisation between a store and a load.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  shfl_bfly(t, 1);
  if (!BROKEN) warp_sync();
  st_global(o + t, ld_shared<4>(s + (t ^ 1) * 4u));  // found here
}
