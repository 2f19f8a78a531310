template <int block, int parts>
__global__ void partial_sums(float* partial, const float* x, int n) {
  __shared__ float sums[block];
  float sum = 0;
  for (int i = blockIdx.x * block + threadIdx.x; i < n; i += parts * block) sum += x[blockIdx.y * n + i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < block; ++i) sum += sums[i];
    partial[blockIdx.y * parts + blockIdx.x] = sum;
  }
}

template <int parts>
__global__ void whole_sums(float* total, const float* partial, float scale) {
  float sum = 0;
  for (int i = 0; i < parts; ++i) sum += partial[blockIdx.x * parts + i];
  total[blockIdx.x] = scale * sum;
}
