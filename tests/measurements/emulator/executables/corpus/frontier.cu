// A breadth-first search: a frontier with an atomic counter, and a flag that the host reads after each launch.
#include "check.h"
__global__ void expand(const int* starts, const int* edges, int* level, const int* front, int size, int* next, int* count, int depth) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  for (int e = starts[front[i]]; e < starts[front[i] + 1]; ++e) {
    if (atomicCAS(&level[edges[e]], -1, depth) == -1) next[atomicAdd(count, 1)] = edges[e];
  }
}
int main() {
  const int n = 60;
  std::vector<int> starts(n + 1), edges, expected(n, -1);
  for (int i = 0; i < n; ++i) {
    for (int e : {2 * i + 1, 2 * i + 2}) if (e < n) edges.push_back(e);
    if (i % 3 == 0 && i > 0) edges.push_back(i - 1);
    starts[i + 1] = edges.size();
  }
  for (int i = 0; i < n; ++i) expected[i] = i == 0 ? 0 : expected[(i - 1) / 2] + 1;
  int *s, *e, *level, *front, *next, *count;
  CHECK(cudaMalloc(&s, starts.size() * 4));
  CHECK(cudaMalloc(&e, edges.size() * 4));
  CHECK(cudaMalloc(&level, n * 4));
  CHECK(cudaMalloc(&front, n * 4));
  CHECK(cudaMalloc(&next, n * 4));
  CHECK(cudaMalloc(&count, 4));
  CHECK(cudaMemcpy(s, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(e, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(level, 0xff, n * 4));
  CHECK(cudaMemset(level, 0, 4));
  CHECK(cudaMemset(front, 0, 4));
  int size = 1;
  for (int depth = 1; size > 0; ++depth) {
    CHECK(cudaMemset(count, 0, 4));
    expand<<<(size + 31) / 32, 32>>>(s, e, level, front, size, next, count, depth);
    CHECK(cudaMemcpy(&size, count, 4, cudaMemcpyDeviceToHost));
    std::swap(front, next);
  }
  std::vector<int> got(n);
  CHECK(cudaMemcpy(got.data(), level, n * 4, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < n; ++i) good = good && got[i] <= expected[i] && got[i] >= 0;
  return verdict(good);
}
