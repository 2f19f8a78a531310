// ldmatrix reads rows that other lanes of its warp have stored. With BROKEN, __syncwarp is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned lane = threadIdx.x, s = shared_memory();
  st_shared(s + lane * 4u, ld_global_nc<4>(a + lane));
  if (!BROKEN) warp_sync();
  unsigned r[1];
  ldmatrix_x1(r, s + lane % 8 * 16u);  // found here
  st_global(o + lane, AlignedVector<4>{{r[0]}});
}
