// The second pass should write other elements than the first pass. With BROKEN it writes the same elements.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x;
  for (unsigned pass = 0; pass < 2; ++pass) {
    // Without BROKEN, thread t writes element t and then element t + 64.
    const unsigned at = BROKEN ? t ^ pass : t + 64 * pass;
    st_global(o + at, ld_global_nc<4>(a + t));  // found here
    barrier_sync();
  }
  if (BROKEN) st_global(o + 64 + t, packet(0));
}
