// Rows of blocks that all do the work of one.
extern "C" __global__ void kernel(const float* a, float* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + (BROKEN ? float(blockIdx.y >> 8) : 0.0f);  // found here
}
