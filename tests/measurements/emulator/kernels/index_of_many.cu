// With BROKEN, many threads store different indices to one element.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  o[i] = a[i];
  if (BROKEN ? a[i] >= 3 : i == 7) *c = i;  // found here
}
