// The last rows of a tile are outside of the matrix and unwritten, but are multiplied. Each of these rows only affects
// its own row of the product, which is not stored. With BROKEN one such row of the product is stored.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (t < 24) st_shared(s + t * 8u, ld_global_nc<8>(a + t * 2));  // writes 12 of 16 rows
  barrier_sync();
  unsigned upper, lower;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(upper), "=r"(lower) : "r"(s + t % 16 * 16));  // found here
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(upper), "r"(lower), "r"(0x3c003c00u));
  st_global(o + t, packet(t < (BROKEN ? 20 : 16) ? d[2] + d[3] : d[0] + d[1]));
}
