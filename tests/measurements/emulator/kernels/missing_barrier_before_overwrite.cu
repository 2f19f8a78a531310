// With BROKEN, a stage is overwritten while other threads still read it.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  float sum = 0;
  for (int step = 0; step < 3; ++step) {
    st_shared(s + t * 4u, ld_global_nc<4>(a + step * 64 + t));  // found here
    barrier_sync();
    sum += float_of(ld_shared<4>(s + (t + 32) % 64 * 4u).word[0]);
    if (!BROKEN) barrier_sync();
  }
  st_global(o + t, packet(sum));
}
