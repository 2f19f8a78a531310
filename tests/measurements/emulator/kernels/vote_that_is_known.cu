// A block votes on values of which some are unwritten. Written values decide the vote, except with BROKEN.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (t < 32) st_shared(s + t * 4u, packet(load(a + t)));
  barrier_sync();
  const float x = float_of(ld_shared<4>(s + t * 4u).word[0]);  // found here
  const int any = __syncthreads_or(x > (BROKEN ? 1000.0f : 10.0f)), all = __syncthreads_and(x > 10.0f);
  st_global(o + t, packet(any ? 1.0f : all ? 2.0f : 3.0f));
}
