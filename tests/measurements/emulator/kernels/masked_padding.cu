// A workspace of which only a part is written is loaded as a whole; a mask takes nothing else.
extern "C" __global__ void kernel(const float* a, float* o, float* c) {
  const unsigned t = threadIdx.x;
  if (t < 40) c[t] = a[t];
  __syncthreads();
  const float x = c[t];  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? x : 0.0f;
}
