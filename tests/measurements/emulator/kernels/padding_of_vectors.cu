// Threads store vectors of four. The last vector ends in uncomputed padding. With BROKEN it is entirely uncomputed.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned i = threadIdx.x;
  const unsigned most = BROKEN ? 60 : 61;
  if (i >= 16) return;
  float v[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (4 * i + k < most) v[k] = a[4 * i + k];
  }
  reinterpret_cast<float4*>(o)[i] = make_float4(v[0], v[1], v[2], v[3]);  // found here
}
