// Threads read their neighbours' elements in shared memory. With BROKEN the last thread reads beyond the end.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  barrier_sync();
  const unsigned next = !BROKEN && t + 1 == blockDim.x ? 0 : t + 1;
  st_global(o + t, ld_shared<4>(s + next * 4u));  // found here
}
