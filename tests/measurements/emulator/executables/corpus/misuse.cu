// Rejected calls: a copy that is too long (-DCOPY), use of freed memory (-DFREED), too large a block (-DTHREADS),
// and a grid that is not a multiple of its cluster size (-DCLUSTER).
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
#elif defined(CLUSTER)
  cudaLaunchAttribute pairs[1] = {};
  pairs[0].id = cudaLaunchAttributeClusterDimension;
  pairs[0].val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(3), config.blockDim = dim3(32), config.attrs = pairs, config.numAttrs = 1;
  const bool refused = cudaLaunchKernelEx(&config, touch, d) == cudaErrorInvalidClusterSize;
#else
  touch<<<1, 2048>>>(d);
  const bool refused = cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
#endif
  return verdict(refused);
}
