// Lines printed by the device appear between the host's lines in the correct order.
#include "check.h"
__global__ void hello(const char* name, float x) { printf("device %d says %s %.2f\n", threadIdx.x, "hello", x * threadIdx.x); }
int main() {
  std::printf("before\n");
  hello<<<1, 2>>>(nullptr, 1.5f);
  CHECK(cudaDeviceSynchronize());
  std::printf("after\n");
  return 0;
}
