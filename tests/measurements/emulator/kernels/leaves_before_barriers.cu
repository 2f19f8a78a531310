// Threads beyond the end exit before the barriers. Since Volta, barriers wait only for the remaining threads. With
// BROKEN, the barrier before an overwrite is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float s[64];
  const unsigned t = threadIdx.x;
  if (t >= 40) {
    o[t] = 0;
    return;
  }
  for (unsigned k = 0; k < 3; ++k) {
    s[t] = a[t] + k;  // found here
    __syncthreads();
    o[t] = s[39 - t];
    if (!BROKEN) __syncthreads();  // after the barrier, the values that were read may be overwritten
  }
}
