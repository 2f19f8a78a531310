// What stays in a variable of the device is there for the next launch.
__device__ unsigned left[64];
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = t;
  __syncthreads();
  left[t] = tile[t];  // found here
  o[t] = a[t];
}
