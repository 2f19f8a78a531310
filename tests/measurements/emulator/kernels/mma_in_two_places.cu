// mma.sync is .aligned: all lanes must execute the same instruction. With BROKEN each half of the warp executes its own
// copy.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  const unsigned x[4] = {0, 0, 0, 0}, y[2] = {0, 0};
  float d[4] = {load(a + t), 0, 0, 0};
  if (BROKEN && t < 16) {
    mma_m16n8k16_f16(d, x, y);  // found here
  } else {
    mma_m16n8k16_f16(d, x, y);
  }
  st_global(o + t, packet(d[0]));
}
