// C = A * B, all row-major f32: A is m x k, B is k x n.
//
// A block computes a tile of block_size_y * tile_size_y rows and block_size_x * tile_size_x columns. It loops over k
// in steps of tile_size_k, with the tiles of both operands in shared memory.

#ifndef block_size_x
#define block_size_x 16
#endif
#ifndef block_size_y
#define block_size_y 16
#endif
#ifndef tile_size_x
#define tile_size_x 4
#endif
#ifndef tile_size_y
#define tile_size_y 4
#endif
#ifndef tile_size_k
#define tile_size_k 16
#endif
// Number of padding columns per row of A's tile, which avoid bank conflicts.
#ifndef padding_a
#define padding_a 1
#endif
// Number of buffers. With 2 buffers, the next tiles are written while the current tiles are read, so a step has one
// barrier instead of two.
#ifndef buffers
#define buffers 1
#endif
// Columns that a thread computes. 1: the columns of a thread are contiguous; 0: the columns of a thread are
// block_size_x apart.
#ifndef contiguous
#define contiguous 0
#endif
#ifndef unroll_k
#define unroll_k tile_size_k
#endif

#define THREADS (block_size_x * block_size_y)
#define TILE_M (block_size_y * tile_size_y)
#define TILE_N (block_size_x * tile_size_x)

// Copies `rows` x `cols` elements of a matrix of pitch `cols_in_all` to a tile, with zeros outside of the matrix.
template <int ROWS, int COLS, int PITCH>
__device__ __forceinline__ void load_tile(float (&tile)[ROWS][PITCH], const float* __restrict__ matrix, int row,
                                          int col, int rows_in_all, int cols_in_all, int thread) {
  for (int i = thread; i < ROWS * COLS; i += THREADS) {
    const int r = row + i / COLS, c = col + i % COLS;
    tile[i / COLS][i % COLS] = r < rows_in_all && c < cols_in_all ? matrix[(size_t)r * cols_in_all + c] : 0.0f;
  }
}

__device__ __forceinline__ int column(int x) {
  return contiguous ? threadIdx.x * tile_size_x + x : threadIdx.x + x * block_size_x;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int m, int n, int k) {
  __shared__ float tile_a[buffers][TILE_M][tile_size_k + padding_a];
  __shared__ float tile_b[buffers][tile_size_k][TILE_N];

  const int thread = threadIdx.y * block_size_x + threadIdx.x;
  const int row0 = blockIdx.y * TILE_M, col0 = blockIdx.x * TILE_N;

  float sum[tile_size_y][tile_size_x] = {};

#if buffers == 2
  load_tile<TILE_M, tile_size_k>(tile_a[0], A, row0, 0, m, k, thread);
  load_tile<tile_size_k, TILE_N>(tile_b[0], B, 0, col0, k, n, thread);
  __syncthreads();
#endif
  for (int k0 = 0, step = 0; k0 < k; k0 += tile_size_k, ++step) {
#if buffers == 2
    const int now = step % 2;
    if (k0 + tile_size_k < k) {
      load_tile<TILE_M, tile_size_k>(tile_a[1 - now], A, row0, k0 + tile_size_k, m, k, thread);
      load_tile<tile_size_k, TILE_N>(tile_b[1 - now], B, k0 + tile_size_k, col0, k, n, thread);
    }
#else
    const int now = 0;
    load_tile<TILE_M, tile_size_k>(tile_a[0], A, row0, k0, m, k, thread);
    load_tile<tile_size_k, TILE_N>(tile_b[0], B, k0, col0, k, n, thread);
    __syncthreads();
#endif

#pragma unroll unroll_k
    for (int l = 0; l < tile_size_k; ++l) {
      float a[tile_size_y], b[tile_size_x];
#pragma unroll
      for (int y = 0; y < tile_size_y; ++y) a[y] = tile_a[now][threadIdx.y + y * block_size_y][l];
#pragma unroll
      for (int x = 0; x < tile_size_x; ++x) b[x] = tile_b[now][l][column(x)];
#pragma unroll
      for (int y = 0; y < tile_size_y; ++y) {
#pragma unroll
        for (int x = 0; x < tile_size_x; ++x) sum[y][x] += a[y] * b[x];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int y = 0; y < tile_size_y; ++y) {
    const int row = row0 + threadIdx.y + y * block_size_y;
#pragma unroll
    for (int x = 0; x < tile_size_x; ++x) {
      const int col = col0 + column(x);
      if (row < m && col < n) C[(size_t)row * n + col] = sum[y][x];
    }
  }
}
