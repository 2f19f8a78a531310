// With BROKEN, a thread stores to bytes that a cp.async is still writing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  cp_async_ca<4>(s + t * 4u, a + t, 4);
  cp_async_commit_group();
  if (!BROKEN) cp_async_wait_group<0>();
  if (t == 5) st_shared(s + t * 4u, packet(3));  // found here
  cp_async_wait_group<0>();
  st_global(o + t, ld_shared<4>(s + t * 4u));
}
