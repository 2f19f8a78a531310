// Like tile_that_wraps_round, but with BROKEN the launch also writes the source, so the copies may differ.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x;
  o[t] = a[t];
  if (BROKEN && t < 24) c[40 + t] = 0;
  __syncthreads();
#pragma unroll
  for (unsigned k = 0; k < 2; ++k) {
    const unsigned i = t + k * 64;
    c[i % 24] = c[40 + i % 24];  // found here
  }
}
