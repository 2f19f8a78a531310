// Shared memory may still hold values that an earlier block stored. With BROKEN, a block reads such values.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (!BROKEN || blockIdx.x == 0) st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  barrier_sync();
  st_global(o + blockIdx.x * 32 + t, ld_shared<4>(s + t * 4u));  // found here
}
