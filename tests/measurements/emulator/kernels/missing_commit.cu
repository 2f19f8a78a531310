// cp.async.wait_group does not wait for copies that are in no group. With BROKEN the commit is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  cp_async_ca<4>(s + t * 4u, a + t, 4);
  if (!BROKEN) cp_async_commit_group();
  cp_async_wait_group<0>();
  barrier_sync();
  st_global(o + t, ld_shared<4>(s + t * 4u));  // found here
}
