// Two unordered warps write a word, one of them twice, so the word is undefined. A later write after a barrier
// defines it; with BROKEN that write is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  const float first = load(a), second = load(a + 1), third = load(a + 2);
  if (t == 0) st_shared(s, packet(first));
  if (t == 32) {
    st_shared(s, packet(second));  // found here
    st_shared(s, packet(third));
  }
  barrier_sync();
  if (!BROKEN && t == 5) st_shared(s, packet(third));
  barrier_sync();
  st_global(o + t, ld_shared<4>(s));
}
