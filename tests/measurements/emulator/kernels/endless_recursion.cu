// With BROKEN, a function recurses deeper than the device's stack allows.
#include "common.cuh"

inline __device__ __noinline__ float deep(const float* p, int n) {
  volatile float frame[64];
  frame[n % 64] = float_of(ld_global_nc<4>(p).word[0]);
  return n == 0 ? frame[0] : deep(p, n - 1) + frame[n % 64];  // found here
}
extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  st_global(o + t, packet(deep(a + t, BROKEN ? 1000000 : 3)));
}
