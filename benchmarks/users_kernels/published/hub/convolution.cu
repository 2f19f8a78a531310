// 2-D convolution with all options of the benchmark hub: shared memory, the read-only cache, constant memory.
__constant__ float d_filter[side * side];

__global__ void convolution(float *output, const float *input, const float *filter, int width, int height) {
  int input_width = width + side - 1;
  int x0 = blockIdx.x * block_size_x * tile_size_x, y0 = blockIdx.y * block_size_y * tile_size_y;
#if use_shmem
  __shared__ float tile[block_size_y * tile_size_y + side - 1][block_size_x * tile_size_x + side - 1];
  for (int i = threadIdx.y; i < block_size_y * tile_size_y + side - 1; i += block_size_y)
    for (int j = threadIdx.x; j < block_size_x * tile_size_x + side - 1; j += block_size_x) {
      int y = y0 + i < height + side - 1 ? y0 + i : height + side - 2, x = x0 + j < input_width ? x0 + j : input_width - 1;
      tile[i][j] = input[y * input_width + x];
    }
  __syncthreads();
#endif
  for (int ty = 0; ty < tile_size_y; ++ty)
    for (int tx = 0; tx < tile_size_x; ++tx) {
      int dx = threadIdx.x + tx * block_size_x, dy = threadIdx.y + ty * block_size_y;
      if (x0 + dx >= width || y0 + dy >= height) continue;
      float sum = 0.0f;
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j) {
#if use_shmem
          float value = tile[dy + i][dx + j];
#elif read_only
          float value = __ldg(input + (y0 + dy + i) * input_width + x0 + dx + j);
#else
          float value = input[(y0 + dy + i) * input_width + x0 + dx + j];
#endif
#if use_cmem
          sum += value * d_filter[i * side + j];
#else
          sum += value * filter[i * side + j];
#endif
        }
      output[(y0 + dy) * width + x0 + dx] = sum;
    }
}
