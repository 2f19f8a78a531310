// One time step of the wave equation. The result overwrites the older of the two fields.
__global__ void stencil(float *older, const float *newer, int width, int height) {
  int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  int i = y * width + x;
  older[i] = 2.0f * newer[i] - older[i] +
             0.25f * (newer[i - 1] + newer[i + 1] + newer[i - width] + newer[i + width] - 4.0f * newer[i]);
}
