// A cooperative launch with grid barriers.
#include <cooperative_groups.h>

#include "check.h"
namespace cg = cooperative_groups;
__global__ void shift(int* x, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  for (int r = 0; r < rounds; ++r) {
    const int next = x[(i + 1) % n];
    cg::this_grid().sync();
    x[i] = next;
    cg::this_grid().sync();
  }
}
int main() {
  int device = -1, can = 0, blocks = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, device));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shift, 32, 0));
  const int n = 4 * 32;
  std::vector<int> a(n);
  for (int i = 0; i < n; ++i) a[i] = i;
  int* d;
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  CHECK(cudaMemcpy(d, a.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  int rounds = 3;
  void* arguments[] = {&d, &rounds};
  CHECK(cudaLaunchCooperativeKernel(shift, 4, 32, arguments));
  CHECK(cudaMemcpy(a.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
  bool good = can == 1 && blocks > 0;
  for (int i = 0; i < n; ++i) good = good && a[i] == (i + 3) % n;
  return verdict(good);
}
