// What the runtime refuses: -DCOPY a copy that is too long, -DFREED use of freed memory, -DTHREADS a block that is too large.
#include "check.h"
__global__ void touch(int* x) { x[threadIdx.x] = 1; }
int main() {
  int *d, host[64] = {};
  CHECK(cudaMalloc(&d, 32 * sizeof(int)));
#ifdef COPY
  const bool refused = cudaMemcpy(d, host, sizeof host, cudaMemcpyHostToDevice) == cudaErrorInvalidValue;
#elif defined(FREED)
  CHECK(cudaFree(d));
  touch<<<1, 32>>>(d);
  CHECK(cudaDeviceSynchronize());
  const bool refused = true;
#else
  touch<<<1, 2048>>>(d);
  const bool refused = cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
#endif
  return verdict(refused);
}
