// Load BYTES at the byte offsets of a table. A row is one request of the warp; an offset of ~0 is no access.
#include "common.cuh"

extern "C" __global__ void kernel(const unsigned* table, const unsigned* requests, const unsigned* data, unsigned* o) {
  const unsigned lane = threadIdx.x;
  const unsigned count = ld_global_nc<4>(requests).word[0];
  for (unsigned r = 0; r < count; ++r) {
    const unsigned at = ld_global_nc<4>(table + r * 32 + lane).word[0];
    if (at != ~0u) ld_global_nc<BYTES>(reinterpret_cast<const char*>(data) + at);  // load
    warp_sync();
  }
  st_global(o + lane, AlignedVector<4>{});
}
