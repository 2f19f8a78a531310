// Heat on a chip: temporal_tiling_factor time steps per launch. A block's margin shrinks by one cell per step.
__global__ void hotspot(const float *power, const float *temp_src, float *temp_dst, int width, int height) {
  constexpr int W = block_size_x * tile_size_x + 2 * steps, H = block_size_y * tile_size_y + 2 * steps;
  __shared__ float field[2][H][W];
  int x0 = blockIdx.x * block_size_x * tile_size_x - steps, y0 = blockIdx.y * block_size_y * tile_size_y - steps;
  for (int i = threadIdx.y; i < H; i += block_size_y)
    for (int j = threadIdx.x; j < W; j += block_size_x) {
      int x = min(max(x0 + j, 0), width - 1), y = min(max(y0 + i, 0), height - 1);
      field[0][i][j] = temp_src[y * width + x];
    }
  for (int step = 0; step < steps; ++step) {
    __syncthreads();
    for (int i = threadIdx.y + 1; i < H - 1; i += block_size_y)
      for (int j = threadIdx.x + 1; j < W - 1; j += block_size_x) {
        int x = x0 + j, y = y0 + i;
        if (i <= step || j <= step || i >= H - 1 - step || j >= W - 1 - step) continue;
        if (x < 0 || y < 0 || x >= width || y >= height) continue;
        float(*from)[W] = field[step % 2];
        float here = from[i][j];
        float left = x > 0 ? from[i][j - 1] : here, right = x < width - 1 ? from[i][j + 1] : here;
        float up = y > 0 ? from[i - 1][j] : here, down = y < height - 1 ? from[i + 1][j] : here;
        field[1 - step % 2][i][j] = here + 0.1f * (left + right + up + down - 4.0f * here + power[y * width + x]);
      }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < block_size_y * tile_size_y; i += block_size_y)
    for (int j = threadIdx.x; j < block_size_x * tile_size_x; j += block_size_x) {
      int x = x0 + steps + j, y = y0 + steps + i;
      if (x < width && y < height) temp_dst[y * width + x] = field[steps % 2][i + steps][j + steps];
    }
}
