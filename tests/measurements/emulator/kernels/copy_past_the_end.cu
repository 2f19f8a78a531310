// cp.async copies vectors at the end of an array. With BROKEN the vectors reach beyond the end.
#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o) {
  const int i = int(threadIdx.x) * 4;
  const unsigned s = shared_memory() + unsigned(i) * 4u;
  const int left = (98 - i) * 4;
  const int bytes = BROKEN ? 16 : left < 0 ? 0 : left < 16 ? left : 16;
  cp_async_cg(s, i < 98 || BROKEN ? a + i : a, bytes);  // found here
  cp_async_commit_group();
  cp_async_wait_group<0>();
  for (int e = 0; e < 4; ++e) {
    if (i + e < 98) st_global(o + i + e, ld_shared<4>(s + unsigned(e) * 4u));
  }
}
