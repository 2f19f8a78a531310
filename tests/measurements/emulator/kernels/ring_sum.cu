// Sum the columns of an f16 matrix. cp.async loads the matrix's rows into a ring of stages.
constexpr int STAGES = 3, TILE = 8, WIDTH = 64;

__device__ __forceinline__ float value(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ void copy(void* to, const void* from, int bytes) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory"); }

extern "C" __global__ void __launch_bounds__(64) ring_sum(const unsigned short* __restrict__ x, float* out) {
  __shared__ __align__(16) unsigned short ring[STAGES][TILE][WIDTH];
  constexpr int tiles = (ROWS + TILE - 1) / TILE;
  const int column0 = blockIdx.x * WIDTH;
  const auto load = [&](int t) {
    const int r = threadIdx.x / 8, c = threadIdx.x % 8 * 8, row = t * TILE + r, column = column0 + c;
    const bool inside = row < ROWS && column < COLUMNS;
    copy(&ring[t % STAGES][r][c], inside ? x + static_cast<long long>(row) * COLUMNS + column : x, inside ? 16 : 0);
  };
  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < tiles) load(t);
    commit();
  }
  float sum = 0.0f;
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    wait();
    __syncthreads();
    if (t + STAGES - 1 < tiles) load(t + STAGES - 1);
    commit();
    for (int r = 0; r < TILE; ++r) sum += value(ring[t % STAGES][r][threadIdx.x]);
  }
  if (column0 + threadIdx.x < COLUMNS) out[column0 + threadIdx.x] = sum;
}
