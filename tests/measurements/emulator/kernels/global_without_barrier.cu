// Threads of a block exchange values through global memory. With BROKEN the barrier is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, float* w) {
  const unsigned t = threadIdx.x;
  st_global(w + t, ld_global_nc<4>(a + t));
  if (!BROKEN) barrier_sync();
  const auto x = t < 32 && BROKEN ? packet(0) : ld_global_cg<4>(w + (t + 32) % 64);  // found here
  st_global(o + t, x);
}
