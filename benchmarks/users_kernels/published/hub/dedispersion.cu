// For each of many dispersion measures, sum a radio telescope's channels, each shifted by its delay.
__global__ void dedispersion(const unsigned char *input, float *output, const float *shifts, int samples, int dms, int channels, int per_channel) {
  for (int tx = 0; tx < tile_size_x; ++tx)
    for (int ty = 0; ty < tile_size_y; ++ty) {
#if tile_stride_x
      int sample = blockIdx.x * block_size_x * tile_size_x + tx * block_size_x + threadIdx.x;
#else
      int sample = (blockIdx.x * block_size_x + threadIdx.x) * tile_size_x + tx;
#endif
      int dm = blockIdx.y * block_size_y * tile_size_y + ty * block_size_y + threadIdx.y;
      if (sample >= samples || dm >= dms) continue;
      float sum = 0.0f;
      for (int c = 0; c < channels; ++c) sum += input[c * per_channel + sample + int(dm * shifts[c])];
      output[dm * samples + sample] = sum;
    }
}
