// With BROKEN, an unwritten value is compared by compare-and-swap. A match is unlikely, but the outcome is undefined.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = 7 + t;
  __syncthreads();
  const unsigned value = tile[t] | 4;  // found here
  atomicCAS(c + t, value, 1);
  o[t] = a[t];
}
