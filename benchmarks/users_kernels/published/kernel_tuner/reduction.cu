// A sum in two launches: num_blocks blocks compute partial sums, and one block of the second launch adds these.
__global__ void sum_floats(float *sum_global, const float *array, int n) {
  __shared__ float partial[block_size_x];
  float sum = 0.0f;
  int stride = gridDim.x * block_size_x * vector;
  for (int i = (blockIdx.x * block_size_x + threadIdx.x) * vector; i < n; i += stride)
    for (int k = 0; k < vector; ++k)
      if (i + k < n) sum += array[i + k];
  partial[threadIdx.x] = sum;
  __syncthreads();
#if use_shuffle
  for (int s = block_size_x / 2; s >= 32; s /= 2) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (threadIdx.x == 0) sum_global[blockIdx.x] = sum;
  }
#else
  for (int s = block_size_x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) sum_global[blockIdx.x] = partial[0];
#endif
}
