// With BROKEN, stores are shifted by one element, beyond the end of shared memory.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory() + (BROKEN ? 4u : 0u);
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));  // found here
  st_global(o + t, ld_shared<4>(s + t * 4u));
}
