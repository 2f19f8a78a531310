// Execute ldmatrix with MATRICES matrices at the row addresses of a table. Each row of the table is one request.
#include "common.cuh"

extern "C" __global__ void kernel(const unsigned* table, const unsigned* requests, unsigned* o) {
  const unsigned lane = threadIdx.x, s = shared_memory();
  const unsigned count = ld_global_nc<4>(requests).word[0];
  for (unsigned i = lane * 16; i < 65536; i += 512) st_shared(s + i, AlignedVector<16>{});
  warp_sync();
  for (unsigned r = 0; r < count; ++r) {
    const unsigned at = ld_global_nc<4>(table + r * 32 + lane).word[0];
    unsigned x[MATRICES];
    LDMATRIX(x, s + at);  // load
  }
  st_global(o + lane, AlignedVector<4>{});
}
