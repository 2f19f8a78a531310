// Threads read what other warps have written.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  if (!BROKEN) barrier_sync();
  const unsigned other = (t + 32) % 64;
  // Warp 1 runs behind warp 0 and finds its values; warp 0 would find nothing, so that only warp 1 reads.
  const auto x = t < 32 && BROKEN ? packet(0) : ld_shared<4>(s + other * 4u);  // found here
  st_global(o + t, x);
}
