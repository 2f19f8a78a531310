// A histogram of bytes with atomics in shared and global memory, cleared by cudaMemset.
#include "check.h"
__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
  __shared__ unsigned mine[64];
  if (threadIdx.x < 64) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[data[i] % 64], 1u);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
int main() {
  const int n = 3001;
  std::vector<unsigned char> data(n);
  unsigned expected[64] = {}, got[64];
  for (int i = 0; i < n; ++i) ++expected[(data[i] = i * 37 % 251) % 64];
  unsigned char* d;
  unsigned* bins;
  CHECK(cudaMalloc(&d, n));
  CHECK(cudaMalloc(&bins, sizeof got));
  CHECK(cudaMemcpy(d, data.data(), n, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(bins, 0, sizeof got));
  histogram<<<4, 96>>>(d, n, bins);
  CHECK(cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < 64; ++i) good = good && got[i] == expected[i];
  return verdict(good);
}
