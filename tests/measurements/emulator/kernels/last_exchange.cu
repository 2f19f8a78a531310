// Atomic exchanges store equal values to one element. With BROKEN, one of the values is read from unwritten memory. In
// some orders of the exchanges, this value is stored last, so the element keeps it.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = 7;
  __syncthreads();
  atomicExch(c, t == 50 ? tile[t] : 7);  // found here
  o[t] = a[t];
}
