// What nobody has written, less itself, is zero; less what nobody has written beside it, it is anything.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = t;
  __syncthreads();
  const unsigned mine = tile[t], other = tile[BROKEN ? t ^ 1 : t + c[0]];  // found here
  o[t] = mine - other + a[t];
}
