// Each lane accesses BYTES at the byte offsets of a table. A row is one request; an offset of ~0 is no access.
#include "common.cuh"

extern "C" __global__ void kernel(const unsigned* table, const unsigned* requests, unsigned* o) {
  const unsigned lane = threadIdx.x, s = shared_memory();
  const unsigned count = ld_global_nc<4>(requests).word[0];
  for (unsigned i = lane * 16; i < 65536; i += 512) st_shared(s + i, AlignedVector<16>{});
  warp_sync();
  for (unsigned r = 0; r < count; ++r) {
    const unsigned at = ld_global_nc<4>(table + r * 32 + lane).word[0];
    if (at != ~0u) ld_shared<BYTES>(s + at);  // load
    warp_sync();
  }
  // Several lanes may store zeros to the same bytes: this is a race, but the request is counted nevertheless.
  for (unsigned r = 0; r < count; ++r) {
    const unsigned at = ld_global_nc<4>(table + r * 32 + lane).word[0];
    if (at != ~0u) st_shared(s + at, AlignedVector<BYTES>{});  // store
    warp_sync();
  }
  st_global(o + lane, AlignedVector<4>{});
}
