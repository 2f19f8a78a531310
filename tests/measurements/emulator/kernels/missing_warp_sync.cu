// Lanes of a warp exchange values through shared memory. With BROKEN, __syncwarp is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  if (!BROKEN) warp_sync();
  const auto x = t == 0 ? packet(1) : ld_shared<4>(s + (t - 1) * 4u);  // found here
  st_global(o + t, x);
}
