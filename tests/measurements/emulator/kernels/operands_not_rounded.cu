// The tensor core drops the low bits of an f32 operand. With BROKEN, one operand is not rounded to tf32 before mma.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  unsigned x[4], y[2];
  for (int i = 0; i < 4; ++i) x[i] = bits_of(load(a + t * 4 + i) + 0.1f);
  for (int i = 0; i < 2; ++i) y[i] = cvt_rna_tf32(bits_of(load(a + t * 2 + i)));
  if (!BROKEN) {
    for (int i = 0; i < 4; ++i) x[i] = cvt_rna_tf32(x[i]);
  }
  float d[4] = {};
  mma_m16n8k8_tf32(d, x, y);  // found here
  for (int i = 0; i < 4; ++i) st_global(o + t * 4 + i, packet(d[i]));
}
