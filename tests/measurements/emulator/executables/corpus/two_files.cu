// Compiled with -rdc=true together with second_file.cu. Uses its function and variable, and repeats its static names.
#include "check.h"

extern __device__ int twice(int x);
extern __device__ int counter;
static __device__ int own = 1;

static __device__ __noinline__ int offset(int x) { return x + own; }

__global__ void apply(int* to) {
  to[threadIdx.x] = offset(twice(threadIdx.x));
  atomicAdd(&counter, 1);
}

int main() {
  int* to;
  CHECK(cudaMalloc(&to, 32 * sizeof(int)));
  apply<<<1, 32>>>(to);
  CHECK(cudaGetLastError());
  int result[32], counted;
  CHECK(cudaMemcpy(result, to, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  for (int i = 0; i < 32; ++i) {
    if (result[i] != 2 * i + 101) return 1;
  }
  if (counted != 7 + 32) return 1;
  std::puts("PASS");
}
