// y = A * x, with A in CSR format, by threads_per_row threads per row.
__global__ void spmv(float *y, const int *rows, const int *columns, const float *values, const float *x, int n) {
  int row = blockIdx.x * (block_size_x / threads_per_row) + threadIdx.x / threads_per_row;
  int lane = threadIdx.x % threads_per_row;
  float sum = 0.0f;
  if (row < n)
    for (int i = rows[row] + lane; i < rows[row + 1]; i += threads_per_row) {
#if read_only
      sum += values[i] * __ldg(x + columns[i]);
#else
      sum += values[i] * x[columns[i]];
#endif
    }
  for (int s = threads_per_row / 2; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s, threads_per_row);
  if (row < n && lane == 0) y[row] = sum;
}
