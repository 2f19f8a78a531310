// With BROKEN, three unordered warps write a word. Two write the same value, but the first warp may write last.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  const float first = load(a), second = load(a + 1);
  if (t == 0) st_shared(s, packet(first));
  if (!BROKEN) barrier_sync();
  if (t == 32) st_shared(s, packet(second));  // found here
  if (!BROKEN) barrier_sync();
  if (t == 64) st_shared(s, packet(second));
  barrier_sync();
  st_global(o + t, ld_shared<4>(s));
}
