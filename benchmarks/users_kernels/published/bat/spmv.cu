// y = A * x, with A in ELLPACK-R format: rows are stored with equal length, but only lengths[row] elements are used.
__global__ void spmv_ellpackr(const double *values, const double *x, const int *columns, const int *lengths, int n, double *y) {
  int row = blockIdx.x * BLOCK_SIZE + threadIdx.x;
  if (row >= n) return;
  double sum = 0.0;
#pragma unroll (UNROLL)
  for (int i = 0; i < lengths[row]; ++i) sum += values[i * n + row] * x[columns[i * n + row]];
  y[row] = sum;
}
