// Blocks count themselves, and the atomic's old value tells which is last. With BROKEN a plain read decides.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
  if (threadIdx.x != 0) return;
  const unsigned before = atomicAdd(c, 1u);  // found here
  if ((BROKEN ? *c - 1 : before) == gridDim.x - 1) c[1] = 1;
}
