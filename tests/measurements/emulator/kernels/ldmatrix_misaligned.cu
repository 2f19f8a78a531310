// Rows of ldmatrix must start at multiples of 16 bytes. With BROKEN they start 8 bytes later.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned lane = threadIdx.x, s = shared_memory();
  st_shared(s + lane * 8u, ld_global_nc<8>(a + lane * 2));
  warp_sync();
  unsigned r[1];
  ldmatrix_x1(r, s + lane % 8 * 16u + (BROKEN ? 8u : 0u));  // found here
  st_global(o + lane, AlignedVector<4>{{r[0]}});
}
