// With BROKEN, many threads store the same value, true, to one flag.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  o[i] = a[i];
  if (BROKEN || i == 7) *c = 1;  // found here
}
