// The larger of a number and of what nobody has written is often the number.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ float tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = a[t];
  __syncthreads();
  const float largest = fmaxf(tile[t], 1.0f);  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? largest : 0.0f;
}
