// One pass of a separable convolution, along rows: filter in constant memory, row with its halo in shared memory.
__constant__ float d_filter[filter_width];

__global__ void convolution_row(float *output, const float *input, int width, int height) {
  __shared__ float row[block_size_y][block_size_x * tile_size_x + filter_width - 1];
  int x0 = blockIdx.x * block_size_x * tile_size_x, y = blockIdx.y * block_size_y + threadIdx.y;
  for (int j = threadIdx.x; j < block_size_x * tile_size_x + filter_width - 1; j += block_size_x)
    row[threadIdx.y][j] = y < height && x0 + j < width + filter_width - 1 ? input[y * (width + filter_width - 1) + x0 + j] : 0.0f;
  __syncthreads();
  for (int t = 0; t < tile_size_x; ++t) {
    int x = x0 + t * block_size_x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll loop_unroll_factor_filter
    for (int j = 0; j < filter_width; ++j) sum += row[threadIdx.y][t * block_size_x + threadIdx.x + j] * d_filter[j];
    if (x < width && y < height) output[y * width + x] = sum;
  }
}
