// cp.async.wait_group makes copies visible only to the waiting thread. With BROKEN, others read without a barrier.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  cp_async_ca<4>(s + t * 4u, a + t, 4);
  cp_async_commit_group();
  cp_async_wait_group<0>();
  if (!BROKEN) barrier_sync();
  const auto x = t < 32 && BROKEN ? packet(0) : ld_shared<4>(s + (t + 32) % 64 * 4u);  // found here
  st_global(o + t, x);
}
