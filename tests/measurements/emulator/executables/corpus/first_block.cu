// Assumes that block 0 increments the counter first, which only holds if blocks run in ascending order.
#include "check.h"
__global__ void count(int* total, float* x) {
  if (threadIdx.x == 0 && atomicAdd(total, 1) != 0 && blockIdx.x == 0) x[1 << 20] = 1;  // here
}
int main() {
  int* total;
  float* x;
  CHECK(cudaMalloc(&total, sizeof(int)));
  CHECK(cudaMalloc(&x, 64));
  CHECK(cudaMemset(total, 0, sizeof(int)));
  count<<<9, 32>>>(total, x);
  int counted = 0;
  CHECK(cudaMemcpy(&counted, total, sizeof(int), cudaMemcpyDeviceToHost));
  return verdict(counted == 9);
}
