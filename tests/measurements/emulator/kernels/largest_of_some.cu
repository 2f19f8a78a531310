// The maximum of a number and an unwritten value is often the number. With BROKEN one such maximum is stored.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = a[t];
  __syncthreads();
  const float largest = fmaxf(tile[t], 1.0f);  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? largest : 0.0f;
}
