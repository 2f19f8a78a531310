// The last column of a tile is outside of the matrix and unwritten, but is multiplied. It affects only one column of
// the product. This column and the tile's last column are held by different threads. With BROKEN, one element of the
// affected column is stored.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  if (t < 28) st_shared(s + t * 4u, ld_global_nc<4>(a + t));  // writes 7 of 8 columns
  barrier_sync();
  unsigned b;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(b) : "r"(s + t % 8 * 16));  // found here
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%5}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(0x3c003c00u), "r"(b));
  const bool is_inside = t % 4 != 3 || (BROKEN && t < 28);
  st_global(o + t, packet(is_inside ? d[1] + d[3] : d[0] + d[2]));
}
