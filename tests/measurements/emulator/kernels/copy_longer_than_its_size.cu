// With BROKEN, a cp.async of 4 bytes has a source size of 8 bytes.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory() + t * 4u;
  st_shared(s, packet(0));
  cp_async_ca<4>(s, a + t, BROKEN ? 8 : 4);  // found here
  cp_async_commit_group();
  cp_async_wait_group<0>();
  st_global(o + t, ld_shared<4>(s));
}
