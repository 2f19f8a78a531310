// With BROKEN, a thread stores an unwritten value that another thread overwrites in some orders only.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = a[t];
  __syncthreads();
  if (BROKEN && t == 0) o[32] = tile[63];  // found here
  o[t] = a[t];
}
