// A two-dimensional convolution without flipping the filter, as in image processing and neural networks:
//
//   output[y][x] = sum over i, j of input[y + i][x + j] * filter[i][j]
//
// The input has a border: it is FILTER_HEIGHT - 1 rows and FILTER_WIDTH - 1 columns larger than the output. A block
// keeps its part of the input in shared memory, and each thread computes tile_size_y x tile_size_x outputs.

#ifndef FILTER_WIDTH
#define FILTER_WIDTH 17
#endif
#ifndef FILTER_HEIGHT
#define FILTER_HEIGHT 17
#endif
#ifndef block_size_x
#define block_size_x 16
#endif
#ifndef block_size_y
#define block_size_y 16
#endif
#ifndef tile_size_x
#define tile_size_x 1
#endif
#ifndef tile_size_y
#define tile_size_y 1
#endif
// Number of padding columns per row in shared memory, which avoid bank conflicts.
#ifndef padding
#define padding 0
#endif
// 1: the filter is in shared memory, like the image; 0: the filter is read through the read-only cache.
#ifndef filter_in_shared
#define filter_in_shared 0
#endif
// Unroll factor of the loop over rows of the filter. The loop over a row is unrolled completely.
#ifndef unroll_rows
#define unroll_rows 1
#endif

#define THREADS (block_size_x * block_size_y)
#define TILE_WIDTH (block_size_x * tile_size_x)
#define TILE_HEIGHT (block_size_y * tile_size_y)
#define INPUT_WIDTH (TILE_WIDTH + FILTER_WIDTH - 1)
#define INPUT_HEIGHT (TILE_HEIGHT + FILTER_HEIGHT - 1)

extern "C" __global__ void __launch_bounds__(THREADS)
    convolution(float* __restrict__ output, const float* __restrict__ input, const float* __restrict__ filter,
                int width, int height) {
  __shared__ float part[INPUT_HEIGHT][INPUT_WIDTH + padding];

  const int left = blockIdx.x * TILE_WIDTH, top = blockIdx.y * TILE_HEIGHT;
  const int input_width = width + FILTER_WIDTH - 1, input_height = height + FILTER_HEIGHT - 1;

  for (int i = threadIdx.y; i < INPUT_HEIGHT; i += block_size_y) {
    for (int j = threadIdx.x; j < INPUT_WIDTH; j += block_size_x) {
      const int y = top + i, x = left + j;
      part[i][j] = y < input_height && x < input_width ? input[(size_t)y * input_width + x] : 0.0f;
    }
  }

#if filter_in_shared
  __shared__ float weights[FILTER_HEIGHT * FILTER_WIDTH];
  for (int i = threadIdx.y * block_size_x + threadIdx.x; i < FILTER_HEIGHT * FILTER_WIDTH; i += THREADS) {
    weights[i] = filter[i];
  }
#endif
  __syncthreads();

  float sum[tile_size_y][tile_size_x] = {};

#pragma unroll unroll_rows
  for (int i = 0; i < FILTER_HEIGHT; ++i) {
#pragma unroll
    for (int j = 0; j < FILTER_WIDTH; ++j) {
#if filter_in_shared
      const float weight = weights[i * FILTER_WIDTH + j];
#else
      const float weight = __ldg(filter + i * FILTER_WIDTH + j);
#endif
#pragma unroll
      for (int ty = 0; ty < tile_size_y; ++ty) {
#pragma unroll
        for (int tx = 0; tx < tile_size_x; ++tx) {
          sum[ty][tx] += part[threadIdx.y + ty * block_size_y + i][threadIdx.x + tx * block_size_x + j] * weight;
        }
      }
    }
  }

#pragma unroll
  for (int ty = 0; ty < tile_size_y; ++ty) {
    const int y = top + threadIdx.y + ty * block_size_y;
#pragma unroll
    for (int tx = 0; tx < tile_size_x; ++tx) {
      const int x = left + threadIdx.x + tx * block_size_x;
      if (y < height && x < width) output[(size_t)y * width + x] = sum[ty][tx];
    }
  }
}
