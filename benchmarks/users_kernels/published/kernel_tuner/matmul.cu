// C = A * B for square matrices. Each thread computes tile_size_y x tile_size_x elements.
__global__ void matmul(float *C, const float *A, const float *B, int width) {
  __shared__ float sA[block_size_y * tile_size_y][block_size_x];
  __shared__ float sB[block_size_x][block_size_x * tile_size_x];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * block_size_x * tile_size_x + tx;
  int y = blockIdx.y * block_size_y * tile_size_y + ty;
  float sum[tile_size_y][tile_size_x] = {};
  for (int k = 0; k < width; k += block_size_x) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile_size_y; ++i)
      sA[ty + block_size_y * i][tx] = A[(y + block_size_y * i) * width + k + tx];
    for (int r = ty; r < block_size_x; r += block_size_y)
#pragma unroll
      for (int j = 0; j < tile_size_x; ++j)
        sB[r][tx + j * block_size_x] = B[(k + r) * width + x + j * block_size_x];
    __syncthreads();
#pragma unroll
    for (int kb = 0; kb < block_size_x; ++kb)
#pragma unroll
      for (int i = 0; i < tile_size_y; ++i)
#pragma unroll
        for (int j = 0; j < tile_size_x; ++j)
          sum[i][j] += sA[ty + block_size_y * i][kb] * sB[kb][tx + j * block_size_x];
  }
#pragma unroll
  for (int i = 0; i < tile_size_y; ++i)
#pragma unroll
    for (int j = 0; j < tile_size_x; ++j)
      C[(y + block_size_y * i) * width + x + block_size_x * j] = sum[i][j];
}
