// wmma strides must be multiples of 16 bytes. With BROKEN the stride is 36 bytes.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const unsigned t = threadIdx.x, s = shared_memory();
  for (unsigned i = t; i < 256; i += 32) st_shared(s + i * 4u, ld_global_nc<4>(a + i));
  warp_sync();
  unsigned r[4];
  wmma_load_a_m16n16k8_tf32<Major::row>(r, s, BROKEN ? 9 : 12);  // found here
  st_global(o + t, AlignedVector<4>{{r[0]}});
}
