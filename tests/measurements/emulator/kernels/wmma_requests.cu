// Execute one wmma.load at each byte offset of a table. `requests` holds the number of loads and the row stride of a
// tile.
#include "common.cuh"

extern "C" __global__ void kernel(const unsigned* table, const unsigned* requests, unsigned* o) {
  const unsigned lane = threadIdx.x, s = shared_memory();
  const unsigned count = ld_global_nc<4>(requests).word[0], stride = ld_global_nc<4>(requests + 1).word[0];
  for (unsigned i = lane * 16; i < 65536; i += 512) st_shared(s + i, AlignedVector<16>{});
  warp_sync();
  for (unsigned r = 0; r < count; ++r) {
    unsigned x[REGISTERS];
    WMMA_LOAD<Major::ORDER>(x, s + ld_global_nc<4>(table + r).word[0], stride);  // load
  }
  st_global(o + lane, AlignedVector<4>{});
}
