// All blocks with the same blockIdx.x do the same work and store the same values. With BROKEN, some values differ.
extern "C" __global__ void kernel(const float* a, float* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + (BROKEN ? float(blockIdx.y >> 8) : 0.0f);  // found here
}
