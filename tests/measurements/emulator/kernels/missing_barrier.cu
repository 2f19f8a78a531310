// Threads read what another warp has written. With BROKEN the barrier is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  if (!BROKEN) barrier_sync();
  const unsigned other = (t + 32) % 64;
  // With BROKEN only warp 1 reads: it runs after warp 0 and gets values. Warp 0 would read unwritten memory.
  const auto x = t < 32 && BROKEN ? packet(0) : ld_shared<4>(s + other * 4u);  // found here
  st_global(o + t, x);
}
