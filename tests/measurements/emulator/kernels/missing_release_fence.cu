// The last block adds up what other blocks have stored. With BROKEN the fence before the count is missing.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, float* w, unsigned* counter) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_global(w + blockIdx.x * 64 + t, ld_global_nc<4>(a + blockIdx.x * 64 + t));
  if (!BROKEN) fence_gpu();
  barrier_sync();
  if (t == 0) st_shared(s, AlignedVector<4>{{atomic_add(counter, 1)}});
  barrier_sync();
  if (ld_shared<4>(s).word[0] + 1 != gridDim.x) return;
  if (true) fence_gpu();
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += float_of(ld_global_cg<4>(w + b * 64 + t).word[0]);  // found here
  st_global(o + t, packet(sum));
  if (t == 0) st_global(counter, AlignedVector<4>{{0}});
}
