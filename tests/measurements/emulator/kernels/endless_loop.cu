// With BROKEN, the kernel waits for a value that no thread writes.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned* flag) {
  const unsigned t = threadIdx.x;
  st_global(o + t, ld_global_nc<4>(a + t));
  while (BROKEN && ld_global_cg<4>(flag).word[0] == 0) {  // found here
  }
}
