// Fragments are loaded one step ahead. The last step loads a fragment while other warps may overwrite its memory.
// This is harmless, since this fragment is not multiplied, unlike the fragments that its register held before.
// With BROKEN, the last fragment is multiplied too.
#include "common.cuh"

inline __device__ void fetch(unsigned& fragment, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(fragment) : "r"(row));
}
inline __device__ void multiply(float (&c)[4], unsigned a) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a & 0x3c003c00u));
}

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, s = shared_memory(), row = s + t % 8 * 16;
  float sum[4] = {};
#pragma unroll 1
  for (unsigned round = 0; round < 2; ++round) {
    st_shared(s + t * 4u, ld_global_nc<4>(a + t));
    barrier_sync();
    unsigned even, odd;
    fetch(even, row);
#pragma unroll 1
    for (unsigned pass = 0; pass < 2; ++pass) {
      barrier_sync();
      fetch(odd, row + 128);
      multiply(sum, even);
      barrier_sync();
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(even) : "r"(row));  // found here
      multiply(sum, odd);
    }
    if (BROKEN) multiply(sum, even);
    st_shared(s + (63 - t) * 4u, packet(sum[0]));
    barrier_sync();
  }
  st_global(o + t, packet(sum[0] + sum[1] + sum[2] + sum[3]));
}
