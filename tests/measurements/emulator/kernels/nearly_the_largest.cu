// With BROKEN, the maximum of 1e38 and an unwritten value is stored. Few floats exceed 1e38, but the unwritten value
// may be one of them, or infinite.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = a[t];
  __syncthreads();
  const float largest = fmaxf(tile[t], 1e38f);  // found here
  o[t] = t == 40 ? largest : a[t];
}
