// A block waits for a later one: one thread asks, and all hear of the answer at a barrier, as in Triton's loops.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned there;
  const unsigned turn = gridDim.x - 1 - blockIdx.x;
  do {
    __syncthreads();
    if (threadIdx.x == 0) there = atomicCAS(c, turn, turn);  // found here
    __syncthreads();
  } while (there != turn);
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0 && !(BROKEN && blockIdx.x == 2)) {
    __threadfence();
    atomicAdd(c, 1u);
  }
}
