// As in Triton's loops, a block waits for a later block: one thread polls, and barriers pass the answer to the others.
// With BROKEN one block never signals.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned counter;
  const unsigned turn = gridDim.x - 1 - blockIdx.x;
  do {
    __syncthreads();
    if (threadIdx.x == 0) counter = atomicCAS(c, turn, turn);  // found here
    __syncthreads();
  } while (counter != turn);
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0 && !(BROKEN && blockIdx.x == 2)) {
    __threadfence();
    atomicAdd(c, 1u);
  }
}
