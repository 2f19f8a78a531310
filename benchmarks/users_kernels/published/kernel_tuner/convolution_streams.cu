// 2-D convolution of some rows of an image, from row `first` on. Each stream computes some of the rows.
__constant__ float d_filter[side * side];

__global__ void convolution_part(float *output, const float *input, int width, int rows, int first) {
  int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x >= width || y >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j) sum += input[(first + y + i) * (width + side - 1) + x + j] * d_filter[i * side + j];
  output[(first + y) * width + x] = sum;
}
