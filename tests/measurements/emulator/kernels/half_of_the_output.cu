// With BROKEN, every second thread writes no output.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  if (!BROKEN || t % 2 == 0) st_global(o + t, ld_global_nc<4>(a + t));
}
