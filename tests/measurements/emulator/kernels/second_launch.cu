// Launched twice: the second launch reads what the first stored. With BROKEN, both blocks store again before they read.
#include <autosched/common/last_block.cuh>

#include "common.cuh"

extern "C" __global__ void kernel(const float* a, float* o, float* w, unsigned* counter) {
  const unsigned at = blockIdx.x * 32 + threadIdx.x;
  const bool second = is_second_launch<2>(counter, shared_memory());
  if (!second || BROKEN) st_global(w + at, ld_global_nc<4>(a + at));
  if (second) st_global(o + at, ld_global_cg<4>(w + (at + 32) % 64));  // found here
}
