// A reduction with dynamic shared memory, templates, and several launches in a loop.
#include "check.h"
template <int Block>
__global__ void sum(const int* in, int* out, int n) {
  extern __shared__ int part[];
  int mine = 0;
  for (int i = blockIdx.x * Block + threadIdx.x; i < n; i += gridDim.x * Block) mine += in[i];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (int k = Block / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
int main() {
  const int n = 5000, blocks = 6;
  std::vector<int> a(n);
  long long expected = 0;
  for (int i = 0; i < n; ++i) expected += a[i] = i % 17 - 5;
  int *in, *out;
  CHECK(cudaMalloc(&in, n * sizeof(int)));
  CHECK(cudaMalloc(&out, blocks * sizeof(int)));
  CHECK(cudaMemcpy(in, a.data(), n * sizeof(int), cudaMemcpyDefault));
  bool good = true;
  for (int size = 64; size <= 256; size *= 2) {
    int host[blocks];
    if (size == 64) sum<64><<<blocks, 64, 64 * sizeof(int)>>>(in, out, n);
    if (size == 128) sum<128><<<blocks, 128, 128 * sizeof(int)>>>(in, out, n);
    if (size == 256) sum<256><<<blocks, 256, 256 * sizeof(int)>>>(in, out, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    long long total = 0;
    for (int v : host) total += v;
    good = good && total == expected;
  }
  return verdict(good);
}
