// With BROKEN, ld.global.nc reads what the kernel has written, and may return an older value.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, float* w) {
  const unsigned t = threadIdx.x;
  st_global(w + t, ld_global_nc<4>(a + t));
  const auto x = BROKEN ? ld_global_nc<4>(w + t) : ld_global_cg<4>(w + t);  // found here
  st_global(o + t, x);
}
