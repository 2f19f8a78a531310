// With BROKEN, an unwritten value is the source lane of a shuffle.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = t ^ 1;
  __syncthreads();
  o[t] = __shfl_sync(0xffffffff, a[t], tile[t] & 31);  // found here
}
