// Sum the rows of an f16 matrix. SPLITS blocks share a row, and the last of them adds up all partial sums.
__device__ __forceinline__ float value(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ float rounded(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return value(bits);
}

extern "C" __global__ void __launch_bounds__(128)
    split_sum(const unsigned short* __restrict__ x, float* out, float* partials, unsigned* counters) {
  __shared__ float sums[4];
  __shared__ bool last;
  constexpr int part = (COLUMNS + SPLITS - 1) / SPLITS;
  const int row = blockIdx.y, split = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned short* line = x + static_cast<long long>(row) * COLUMNS;
  const int first = split * part, end = first + part < COLUMNS ? first + part : COLUMNS;
  float sum = 0.0f;
  for (int i = first + threadIdx.x; i < end; i += 128) sum += value(line[i]);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    partials[row * SPLITS + split] = sums[0] + sums[1] + sums[2] + sums[3];
    __threadfence();  // partial sums must be visible before they are counted
    last = atomicAdd(&counters[row], 1u) == SPLITS - 1;
  }
  __syncthreads();
  if (threadIdx.x != 0 || !last) return;
  __threadfence();  // partial sums are read after all of them were counted
  float total = 0.0f;
  for (int s = 0; s < SPLITS; ++s) total += __ldcg(&partials[row * SPLITS + s]);
  out[row] = total;
  counters[row] = 0;
}
