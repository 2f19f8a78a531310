// A kernel must reset its zeroed workspace for the next launch. With BROKEN it does not.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned* counter) {
  const unsigned t = threadIdx.x;
  st_global(o + t, ld_global_nc<4>(a + t));
  if (t == 0) {
    atomic_add(counter, 1);
    if (!BROKEN) st_global(counter, AlignedVector<4>{{0}});
  }
}
