// With BROKEN, an unwritten value decides which function is called.
__device__ __noinline__ float more(float x) { return x + 1; }
__device__ __noinline__ float twice(float x) { return 2 * x; }
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = t;
  __syncthreads();
  float (*function)(float) = tile[t] & 1 ? more : twice;  // found here
  o[t] = function(a[t]);
}
