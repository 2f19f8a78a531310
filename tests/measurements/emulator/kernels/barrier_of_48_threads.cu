// A named barrier counts whole warps. With BROKEN its count is 48 threads.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  st_global(o + t, ld_global_nc<4>(a + t));
  barrier_sync(1, BROKEN ? 48 : 64);  // found here
}
