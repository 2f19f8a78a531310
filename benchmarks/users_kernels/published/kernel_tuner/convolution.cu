// 2-D convolution with the filter in constant memory, and an input tile with its halo in shared memory.
__constant__ float d_filter[filter_height * filter_width];

__global__ void convolution(float *output, const float *input, int width, int height) {
  __shared__ float tile[block_size_y * tile_size_y + filter_height - 1][block_size_x * tile_size_x + filter_width - 1 + padding];
  int x0 = blockIdx.x * block_size_x * tile_size_x, y0 = blockIdx.y * block_size_y * tile_size_y;
  int input_width = width + filter_width - 1, input_height = height + filter_height - 1;
  for (int i = threadIdx.y; i < block_size_y * tile_size_y + filter_height - 1; i += block_size_y)
    for (int j = threadIdx.x; j < block_size_x * tile_size_x + filter_width - 1; j += block_size_x)
      tile[i][j] = y0 + i < input_height && x0 + j < input_width ? input[(y0 + i) * input_width + x0 + j] : 0.0f;
  __syncthreads();
  float sum[tile_size_y][tile_size_x] = {};
  for (int i = 0; i < filter_height; ++i)
    for (int j = 0; j < filter_width; ++j)
#pragma unroll
      for (int ty = 0; ty < tile_size_y; ++ty)
#pragma unroll
        for (int tx = 0; tx < tile_size_x; ++tx)
          sum[ty][tx] += tile[threadIdx.y + i + ty * block_size_y][threadIdx.x + j + tx * block_size_x] * d_filter[i * filter_width + j];
  for (int ty = 0; ty < tile_size_y; ++ty)
    for (int tx = 0; tx < tile_size_x; ++tx) {
      int x = x0 + threadIdx.x + tx * block_size_x, y = y0 + threadIdx.y + ty * block_size_y;
      if (x < width && y < height) output[y * width + x] = sum[ty][tx];
    }
}
