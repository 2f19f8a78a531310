// A matrix product with pitched memory, 2D copies, tiles in shared memory, and two-dimensional blocks.
#include "check.h"
constexpr int Tile = 8;
__global__ void multiply(const float* a, const float* b, float* c, int n, size_t pitch) {
  __shared__ float x[Tile][Tile], y[Tile][Tile + 1];
  const int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += Tile) {
    x[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * pitch + k + threadIdx.x] : 0;
    y[threadIdx.y][threadIdx.x] = column < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * pitch + column] : 0;
    __syncthreads();
    for (int t = 0; t < Tile; ++t) sum += x[threadIdx.y][t] * y[t][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[row * pitch + column] = sum;
}
int main() {
  const int n = 20;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = i % 7 - 3, b[i] = i % 5 - 2;
  float* d[3];
  size_t pitch;
  for (float*& p : d) CHECK(cudaMallocPitch(&p, &pitch, n * sizeof(float), n));
  CHECK(cudaMemcpy2D(d[0], pitch, a.data(), n * sizeof(float), n * sizeof(float), n, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(d[1], pitch, b.data(), n * sizeof(float), n * sizeof(float), n, cudaMemcpyHostToDevice));
  const dim3 block(Tile, Tile), grid((n + Tile - 1) / Tile, (n + Tile - 1) / Tile);
  multiply<<<grid, block>>>(d[0], d[1], d[2], n, pitch / sizeof(float));
  CHECK(cudaMemcpy2D(c.data(), n * sizeof(float), d[2], pitch, n * sizeof(float), n, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float s = 0;
      for (int k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j];
      good = good && s == c[i * n + j];
    }
  }
  return verdict(good);
}
