// With BROKEN, the first block clears a counter to which all blocks add.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (BROKEN && i == 0) *c = 0;
  __syncthreads();
  if (a[i] >= 0) atomicAdd(c, 1u);  // found here
  o[i] = a[i];
}
