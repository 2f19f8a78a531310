// Matrices are loaded one step ahead. The matrix after the last step is unwritten, and is only used with BROKEN.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory();
  st_shared(s + t * 4u, ld_global_nc<4>(a + t));
  barrier_sync();
  unsigned next, now;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(next) : "r"(s + t % 8 * 16));
  float sum = 0;
  for (unsigned k = 0; k < 1u + BROKEN; ++k) {
    now = next;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(next) : "r"(s + 128 + t % 8 * 16));  // found here
    sum += float(now & 255u);
  }
  st_global(o + t, packet(sum));
}
