// With BROKEN, a thread stores a value from unwritten memory. Another thread overwrites it, but only in some orders.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = a[t];
  __syncthreads();
  if (BROKEN && t == 0) o[32] = tile[63];  // found here
  o[t] = a[t];
}
