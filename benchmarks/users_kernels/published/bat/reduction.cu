// A sum in one launch: each block adds its partial sum to the result with an atomic.
__global__ void reduce(const double *in, double *out, int n) {
  extern __shared__ double shared[];
  double sum = 0.0;
  for (int i = blockIdx.x * BLOCK_SIZE + threadIdx.x; i < n; i += gridDim.x * BLOCK_SIZE) sum += in[i];
  shared[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll (LOOP_UNROLL_REDUCE)
  for (int s = BLOCK_SIZE / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) shared[threadIdx.x] += shared[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, shared[0]);
}
