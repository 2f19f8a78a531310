// A partly written workspace is loaded completely and masked. With BROKEN the mask includes an unwritten element.
extern "C" __global__ void kernel(const float* a, float* o, float* c) {
  const unsigned t = threadIdx.x;
  if (t < 40) c[t] = a[t];
  __syncthreads();
  const float x = c[t];  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? x : 0.0f;
}
