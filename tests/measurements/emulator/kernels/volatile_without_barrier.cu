// Volatile accesses order neither warps nor, since Volta, lanes of a warp. With BROKEN the barrier is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ volatile float s[64];
  const unsigned t = threadIdx.x;
  s[t] = a[t];
  if (!BROKEN) __syncthreads();
  o[t] = s[63 - t];  // found here
}
