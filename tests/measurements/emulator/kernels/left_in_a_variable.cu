// A device variable keeps its value for the next launch. With BROKEN, 24 of the kept values are unwritten.
__device__ unsigned left[64];
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = t;
  __syncthreads();
  left[t] = tile[t];  // found here
  o[t] = a[t];
}
