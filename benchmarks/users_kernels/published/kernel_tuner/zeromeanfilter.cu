// Subtract each column's mean from its pixels, in place. Unneeded threads return before the barriers.
__global__ void zero_mean_columns(float *image, int width, int height) {
  __shared__ float sums[block_size_y][block_size_x];
  int x = blockIdx.x * block_size_x + threadIdx.x;
  if (x >= width) return;
  float sum = 0.0f;
  for (int y = threadIdx.y; y < height; y += block_size_y) sum += image[y * width + x];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (int s = block_size_y / 2; s > 0; s /= 2) {
    if (threadIdx.y < s) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + s][threadIdx.x];
    __syncthreads();
  }
  float mean = sums[0][threadIdx.x] / height;
  for (int y = threadIdx.y; y < height; y += block_size_y) image[y * width + x] -= mean;
}
