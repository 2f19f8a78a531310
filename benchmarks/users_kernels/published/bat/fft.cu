// 64-point FFTs (Stockham's algorithm) through shared memory. Each warp computes one FFT.
__global__ void fft(const float2 *in, float2 *out, int batch) {
  __shared__ float2 data[2][PER_BLOCK][64];
  int lane = threadIdx.x % 32, own = threadIdx.x / 32, which = blockIdx.x * PER_BLOCK + own;
  for (int i = lane; i < 64; i += 32) data[0][own][i] = which < batch ? in[which * 64 + i] : make_float2(0, 0);
  int from = 0;
  for (int span = 1; span < 64; span *= 2, from = 1 - from) {
    __syncthreads();
    int k = lane & (span - 1), j = (lane - k) * 2 + k;
    float2 a = data[from][own][lane], b = data[from][own][lane + 32];
    float sine, cosine;
#if FAST
    __sincosf(-3.14159265f * k / span, &sine, &cosine);
#else
    sincosf(-3.14159265f * k / span, &sine, &cosine);
#endif
    float2 t = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    data[1 - from][own][j] = make_float2(a.x + t.x, a.y + t.y);
    data[1 - from][own][j + span] = make_float2(a.x - t.x, a.y - t.y);
  }
  __syncthreads();
  for (int i = lane; i < 64; i += 32)
    if (which < batch) out[which * 64 + i] = data[from][own][i];
}
