// A producer arrives at a barrier and a consumer waits there. With BROKEN the consumer waits at another barrier.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (t < 32) {
    st_shared(s + t * 4u, ld_global_nc<4>(a + t));
    barrier_arrive(1, 64);
  } else {
    barrier_sync(BROKEN ? 2 : 1, 64);  // found here
    st_global(o + t - 32, ld_shared<4>(s + (t - 32) * 4u));
  }
}
