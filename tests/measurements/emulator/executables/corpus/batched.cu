// A kernel scales arrays in place. Its argument is an array of pointers into the middle of one allocation.
#include "check.h"
__global__ void scale(float* const* batch, const int* sizes) {
  float* x = batch[blockIdx.x];
  for (int i = threadIdx.x; i < sizes[blockIdx.x]; i += blockDim.x) x[i] *= blockIdx.x + 1;
}
int main() {
  const int sizes[3] = {10, 64, 33};
  float* pool;
  float* pointers[3];
  CHECK(cudaMalloc(&pool, 107 * sizeof(float)));
  std::vector<float> ones(107, 1.0f), got(107);
  CHECK(cudaMemcpy(pool, ones.data(), 107 * sizeof(float), cudaMemcpyHostToDevice));
  for (int k = 0, at = 0; k < 3; at += sizes[k++]) pointers[k] = pool + at;
  float** table;
  int* lengths;
  CHECK(cudaMalloc(&table, sizeof pointers));
  CHECK(cudaMalloc(&lengths, sizeof sizes));
  CHECK(cudaMemcpy(table, pointers, sizeof pointers, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(lengths, sizes, sizeof sizes, cudaMemcpyHostToDevice));
  scale<<<3, 32>>>(table, lengths);
  CHECK(cudaMemcpy(got.data(), pool, 107 * sizeof(float), cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < 107; ++i) good = good && got[i] == (i < 10 ? 1 : i < 74 ? 2 : 3);
  return verdict(good);
}
