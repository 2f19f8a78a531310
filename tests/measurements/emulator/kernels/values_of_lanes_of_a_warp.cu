// With BROKEN, two unordered warps write a word. In one of these warps, two lanes write it, one after the other.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  const float mine = load(a + t);
  if (t == 0) st_shared(s, packet(mine));
  if (!BROKEN) barrier_sync();
  if (t == 32) st_shared(s, packet(mine));  // found here
  __syncwarp();
  if (t == 33) st_shared(s, packet(mine));
  barrier_sync();
  st_global(o + t, ld_shared<4>(s));
}
