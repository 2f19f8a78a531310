// Dot products of rows. Inputs and outputs are f32; the type of the sums is tuned.
__global__ void row_dots(float *out, const float *a, const float *b, int rows, int columns) {
  int row = blockIdx.x * block_size_x + threadIdx.x;
  if (row >= rows) return;
  sum_type sum = 0;
  for (int j = 0; j < columns; ++j) sum += (sum_type)a[j * rows + row] * (sum_type)b[j * rows + row];
  out[row] = (float)sum;
}
