// Each block counts itself; which one is the last, the count's old value says, and not a look at it afterwards.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
  if (threadIdx.x != 0) return;
  const unsigned before = atomicAdd(c, 1u);  // found here
  if ((BROKEN ? *c - 1 : before) == gridDim.x - 1) c[1] = 1;
}
