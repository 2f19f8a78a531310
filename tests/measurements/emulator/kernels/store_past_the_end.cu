// With BROKEN, the index of a store is off by one.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= 100) return;
  const auto x = ld_global_nc<4>(a + i);
  if (!BROKEN || i != 99) st_global(o + i, x);
  if (BROKEN && i == 99) st_global(o + i + 1, x);  // found here
}
