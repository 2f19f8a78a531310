// cp.async may write as soon as it is issued. With BROKEN, other threads still read the stage.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  float sum = 0;
  for (int step = 0; step < 3; ++step) {
    cp_async_ca<4>(s + t * 4u, a + step * 64 + t, 4);  // found here
    cp_async_commit_group();
    cp_async_wait_group<0>();
    barrier_sync();
    sum += float_of(ld_shared<4>(s + (t + 32) % 64 * 4u).word[0]);
    if (!BROKEN) barrier_sync();
  }
  st_global(o + t, packet(sum));
}
