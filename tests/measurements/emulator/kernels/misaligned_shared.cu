// 16-byte accesses need aligned rows. With BROKEN the row pitch is 20 bytes.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory() + t * (BROKEN ? 20u : 16u);
  st_shared(s, ld_global_nc<16>(a + t * 4));  // found here
  st_global(o + t * 4, ld_shared<16>(s));
}
