// A block votes on values. With BROKEN, unwritten values decide the vote, as no written value exceeds the limit.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (!BROKEN || t < 32) st_shared(s + t * 4u, packet(load(a + t)));
  barrier_sync();
  const float x = float_of(ld_shared<4>(s + t * 4u).word[0]);  // found here
  const int above = __syncthreads_or(x > 1000.0f), below = __syncthreads_and(x < 1000.0f);
  st_global(o + t, packet(above ? 1.0f : below ? 2.0f : 3.0f));
}
