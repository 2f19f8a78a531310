// Device variables have initial values, keep values between launches, and are read and written by the host.
#include "check.h"
__device__ int counter = 40;
__device__ float table[4] = {1, 2, 3, 4};
__device__ float* where = &table[1];
static __device__ unsigned long long hidden;
__global__ void step(float* out) {
  if (threadIdx.x == 0) ++counter, hidden += 7;
  out[threadIdx.x] = table[threadIdx.x % 4] + *where;
}
int main() {
  float *d, out[32];
  CHECK(cudaMalloc(&d, sizeof out));
  step<<<1, 32>>>(d);
  step<<<1, 32>>>(d);
  int count = 0;
  unsigned long long h = 0;
  CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CHECK(cudaMemcpyFromSymbol(&h, hidden, sizeof h));
  const float two = 20;
  CHECK(cudaMemcpyToSymbol(table, &two, sizeof two, sizeof(float)));
  float* address;
  size_t size;
  CHECK(cudaGetSymbolAddress((void**)&address, table));
  CHECK(cudaGetSymbolSize(&size, table));
  CHECK(cudaMemset(address + 3, 0, sizeof(float)));
  step<<<1, 32>>>(d);
  CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
  return verdict(count == 42 && h == 14 && size == 16 && out[0] == 21 && out[1] == 40 && out[2] == 23 && out[3] == 20);
}
