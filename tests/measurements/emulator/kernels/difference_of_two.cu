// An unwritten value minus itself is 0. With BROKEN another unwritten value is subtracted: the result is undefined.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = t;
  __syncthreads();
  const unsigned mine = tile[t], other = tile[BROKEN ? t ^ 1 : t + c[0]];  // found here
  o[t] = mine - other + a[t];
}
