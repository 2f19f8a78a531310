// All threads read the first element. With BROKEN, one thread may overwrite it before others read it.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x, first = c[0];
  if (!BROKEN) __syncthreads();
  c[t] = first + t;  // found here
  o[t] = a[t];
}
