// A kernel that is stopped by a failed assertion or, with -DTRAP, by a trap.
#undef NDEBUG
#include <cassert>

#include "check.h"
__global__ void below(const int* x, int most) {
#ifdef TRAP
  if (x[threadIdx.x] >= most) __trap();
#else
  assert(x[threadIdx.x] < most && "below");
#endif
}
int main() {
  int host[32], *x;
  for (int i = 0; i < 32; ++i) host[i] = i;
  CHECK(cudaMalloc(&x, sizeof host));
  CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
  below<<<1, 32>>>(x, 32);
  CHECK(cudaDeviceSynchronize());
  below<<<1, 32>>>(x, 20);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  return verdict(cudaPeekAtLastError() != cudaSuccess);
}
