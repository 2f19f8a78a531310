// Two groups of cp.async are in flight. With BROKEN the second is read after a wait for the first.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  for (unsigned stage = 0; stage < 2; ++stage) {
    cp_async_ca<4>(s + (stage * 32 + t) * 4u, a + stage * 32 + t, 4);
    cp_async_commit_group();
  }
  if (BROKEN) {
    cp_async_wait_group<1>();
  } else {
    cp_async_wait_group<0>();
  }
  barrier_sync();
  const float x = float_of(ld_shared<4>(s + t * 4u).word[0]);
  const float y = float_of(ld_shared<4>(s + (32 + t) * 4u).word[0]);  // found here
  st_global(o + t, packet(x + y));
}
