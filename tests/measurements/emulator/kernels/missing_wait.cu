// With BROKEN, threads read what other threads copied with cp.async, but no thread waits for its cp.async group.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  cp_async_ca<4>(s + t * 4u, a + t, 4);
  cp_async_commit_group();
  if (!BROKEN) cp_async_wait_group<0>();
  barrier_sync();
  st_global(o + t, ld_shared<4>(s + (t ^ 1) * 4u));  // found here
}
