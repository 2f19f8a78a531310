// The last block has fewer elements than threads. With BROKEN the bounds check is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (!BROKEN && i >= 100) return;
  const auto x = ld_global_nc<4>(a + i);  // found here
  if (i < 100) st_global(o + i, x);
}
