// Inclusive prefix sums of sections of BLOCK_SIZE * ITEMS numbers. Shuffles compute the prefix sums within a warp.
__global__ void scan(const float *in, float *out, int n) {
  __shared__ float warps[BLOCK_SIZE / 32];
  int first = (blockIdx.x * BLOCK_SIZE + threadIdx.x) * ITEMS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float own[ITEMS], sum = 0.0f;
  for (int i = 0; i < ITEMS; ++i) own[i] = sum += first + i < n ? in[first + i] : 0.0f;
  float before = sum;
  for (int s = 1; s < 32; s *= 2) {
    float other = __shfl_up_sync(0xffffffffu, before, s);
    if (lane >= s) before += other;
  }
  if (lane == 31) warps[warp] = before;
  __syncthreads();
  before -= sum;
  for (int w = 0; w < warp; ++w) before += warps[w];
  for (int i = 0; i < ITEMS; ++i)
    if (first + i < n) out[first + i] = before + own[i];
}
