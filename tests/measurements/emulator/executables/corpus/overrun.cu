// A write beyond the end of an allocation.
#include "check.h"
__global__ void fill(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) x[i] = i;  // here
}
int main() {
  int* d;
  CHECK(cudaMalloc(&d, 100 * sizeof(int)));
  fill<<<1, 128>>>(d, 100);
  CHECK(cudaDeviceSynchronize());
  return verdict(true);
}
